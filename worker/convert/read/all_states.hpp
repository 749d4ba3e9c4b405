// Adds the optimizer's states to an opened checkpoint, so that one conversion converts the weights
// and the states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/read/open.hpp"

namespace roll::convert {

// The optimizer states in a source. Each state has one tensor for each tensor of the model.
struct OptimizerStates {
    std::vector<std::string> names;  // such as "exp_avg"; sorted
    std::int64_t updates = 0;        // number of updates that the optimizer has made
    std::size_t model_tensors = 0;   // number of tensors of the model itself
};

// Adds the main weights and the moments of the checkpoint at source.directory to `source`. State k
// of the model's tensor n becomes tensor number (k + 1) * model_tensors + n, with the name
// "optimizer.state.STATE.NAME". States keep their types when the model is cast. Fails with
// InvalidArgument if the checkpoint has no such states.
Result<OptimizerStates> add_states(Source& source, const families::Families& families,
                                   const OpenOptions& options);

// For each tensor of `of_model` and each state, adds a tensor of the same form to the layout, under
// Megatron's key for this state.
void add_state_layout(std::vector<Stored>& layout, const std::vector<Stored>& of_model,
                      const OptimizerStates& states);

}  // namespace roll::convert
