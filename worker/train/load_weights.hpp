// Weights from a checkpoint directory into a whole model's parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Fills a whole model's weights from a HuggingFace directory, or an MCA one of any layout, cast to
// the model's type. Files are mapped, each byte is copied once, and pages are given back as they
// are done with: the peak is the model and the largest tensor. Every tensor of the directory is
// used, and every weight filled. Where the model's vocabulary is larger than the directory's, the
// rows that it lacks are made by ROLL's rule: the mean of its rows, and noise of 1 / sqrt(hidden),
// here drawn from `seed` and the row's number alone.
//
// Returns what was decided, for people: "HuggingFace", "MCA", "MCA of tp 2 pp 2", with
// "; 64 rows of vocabulary made" after it. Throws RankFailure(invalid) naming the tensor that is
// missing, not known or of another shape.
std::string load_weights(const std::filesystem::path& directory, Parameters& parameters,
                         std::uint64_t seed = 1);

}  // namespace roll::train
