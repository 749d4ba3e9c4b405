// roll/optimizer/index.json: which part of each parameter's optimizer state every file of
// roll/optimizer/ holds. Each element of a state is in one file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::checkpoint {

inline constexpr const char* kOptimizerFolder = "roll/optimizer";
inline constexpr const char* kOptimizerIndexFile = "roll/optimizer/index.json";

using Sizes = std::vector<std::int64_t>;

// A box of a parameter's elements. It begins at `begin` in the parameter, and at `local` in the
// tensor of the file that stores it.
struct StoredBox {
    std::string file;  // name in roll/optimizer/
    Sizes begin, size, local;
    friend bool operator==(const StoredBox&, const StoredBox&) = default;
};

struct StoredParameter {
    Sizes shape;  // of the whole parameter
    std::vector<StoredBox> boxes;
    friend bool operator==(const StoredParameter&, const StoredParameter&) = default;
};

struct OptimizerIndex {
    std::int64_t updates = 0;                           // number of updates made
    std::map<std::string, StoredParameter> parameters;  // by name
    std::string optimizer = "adamw";                    // train.optimizer.kind of the job
    friend bool operator==(const OptimizerIndex&, const OptimizerIndex&) = default;
};

std::string encode(const OptimizerIndex& index);
// Fails with Corrupt if the text is not such an index, or if a box leaves its parameter.
Result<OptimizerIndex> decode_optimizer_index(std::string_view json);

// Returns the name of a rank's file in roll/optimizer/: "rank-00003.safetensors".
std::string optimizer_file(int rank);

// Returns true if the file, whose path is relative to the checkpoint, holds optimizer state.
bool is_optimizer_state(std::string_view path);

}  // namespace roll::checkpoint
