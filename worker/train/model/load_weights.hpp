// Loads weights from a checkpoint directory into the parameters of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Fills the parameters of `chunks` from a HuggingFace directory, or an MCA (ROLL's Megatron-based)
// directory of any layout, cast to the model's type. `whole`: the parameters of the whole model.
// Files are mapped, each byte is copied once, and pages are released after use, so peak memory is
// the model plus the largest tensor. Every tensor of the directory must belong to the whole model,
// and the directory must have all of its tensors. If the model's vocabulary is larger than the
// directory's, each additional row is the mean of the directory's rows plus normal noise with std 1
// / sqrt(hidden), which depends only on `seed` and the row number.
//
// Returns a description for people: "HuggingFace", "MCA", "MCA of tp 2 pp 2", followed by "; 64
// vocabulary rows added" if rows were added. Throws RankFailure(invalid), which names a tensor that
// is missing, unknown or of another shape.
std::string load_weights(const std::filesystem::path& directory,
                         std::span<Parameters* const> chunks,
                         const std::vector<ParameterSpec>& whole, std::uint64_t seed = 1);

// Like the function above, for a whole model.
std::string load_weights(const std::filesystem::path& directory, Parameters& parameters);

}  // namespace roll::train
