// Opens NeMo 1.x checkpoints: a directory or a .nemo archive with model_weights.ckpt for each rank
// and a YAML; the layout of trlX's converter is one of them.
#pragma once

#include <filesystem>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// A directory with such files, or a file whose name ends in .nemo.
bool is_nemo(const std::filesystem::path& path);

// `given`: where the config is, if not beside the checkpoint.
Result<void> open_nemo(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

// The same tensors as NeMo before Megatron's core has them: gate and up apart (linear_fc1_2), and
// attention's rows by part.
std::vector<Stored> with_gate_apart(std::vector<Stored> layout);

}  // namespace roll::convert
