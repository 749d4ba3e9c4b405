// Loads weights from a checkpoint directory into the parameters of a whole model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Fills the parameters from a HuggingFace directory, or an MCA (ROLL's Megatron-based) directory of
// any layout, cast to the model's type. Files are mapped, each byte is copied once, and pages are
// released after use, so peak memory is the model plus the largest tensor. Every tensor of the
// directory must be used and every weight filled. If the model's vocabulary is larger than the
// directory's, each additional row is the mean of the directory's rows plus normal noise with std 1
// / sqrt(hidden), which depends only on `seed` and the row number.
//
// Returns a description for people: "HuggingFace", "MCA", "MCA of tp 2 pp 2", followed by "; 64
// vocabulary rows added" if rows were added. Throws RankFailure(invalid), which names a tensor that
// is missing, unknown or of another shape.
std::string load_weights(const std::filesystem::path& directory, Parameters& parameters,
                         std::uint64_t seed = 1);

}  // namespace roll::train
