// Looks for the optimizer's state in a checkpoint directory. Reads no tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "common/error.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// name of the state that holds the main weights
inline constexpr const char* kMainWeights = "fp32_param";

// Returns kMainWeights for "param", Megatron's newer name of the main weights. Returns other names
// unchanged.
std::string canonical_state(const std::string& state);

struct StateInfo {
    std::set<std::string> states = {};     // canonical names, such as "exp_avg"
    std::int64_t updates = 0;              // number of updates that the optimizer has made
    std::filesystem::path directory = {};  // directory of the files with the state
};

// Returns the directory that holds the state of the distributed optimizer: dist_optimizer/ in the
// iteration's directory (as ROLL writes it), `root` itself, or the iteration's directory. Returns
// nullopt if none of these has a .metadata file.
std::optional<std::filesystem::path> optimizer_directory(const std::filesystem::path& root);

// Returns the states of a checkpoint of Roll, Megatron or ROLL. Fails with InvalidArgument if there
// is no state, if Roll cannot read the kind of the state, or if the number of updates is missing.
// The message names the kind.
Result<StateInfo> read_state_info(const std::filesystem::path& root);

}  // namespace roll::convert
