// Loads a state of an optimizer from a checkpoint of any layout: Roll's own, or one of Megatron or
// ROLL with a distributed optimizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// name of the state that has the main weights
inline constexpr const char* kMainWeightState = "fp32_param";

// Called with a parameter's state: a CPU tensor of the parameter's sizes and of main_type(). Only
// some of its rows have values: for a main weight, the rows that this rank stores as a weight; for
// any other state, this rank's own rows (parameters.hpp). The other rows are 0.
using TakeState = std::function<void(std::size_t chunk, std::size_t i, const at::Tensor& state)>;

// Reads the state of every parameter that is not frozen, and passes it to `take`. `state`: the
// state's name in torch, such as "exp_avg". Returns the names of the parameters that a training job
// of Roll has frozen, and for which its checkpoint has no state. Throws RankFailure(invalid) if a
// state is of another shape, or if a checkpoint of Megatron or ROLL lacks a state; the message
// names the parameter.
std::vector<std::string> load_state(const std::filesystem::path& directory,
                                    const std::string& state, std::span<Parameters* const> chunks,
                                    const TakeState& take);

struct StoredStates {
    std::set<std::string> names;  // names of the states, such as "exp_avg"
    std::int64_t updates = 0;     // number of updates that the optimizer has made
};

// Returns the states that the checkpoint has. Throws RankFailure(invalid) if there are no states,
// or if Roll cannot read their kind; the message names the kind.
StoredStates stored_states(const std::filesystem::path& directory);

}  // namespace roll::train
