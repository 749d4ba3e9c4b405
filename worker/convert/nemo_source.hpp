// Opens NeMo 1.x checkpoints: a directory or a .nemo archive with a YAML file and, for each rank, a
// model_weights.ckpt. Also opens the layout of trlX's converter.
#pragma once

#include <filesystem>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Returns whether `path` is a directory with NeMo's files, or a file whose name ends in .nemo.
bool is_nemo(const std::filesystem::path& path);

// Opens the checkpoint at source.directory. `given` is the config's directory if the config is not
// beside the checkpoint.
Result<void> open_nemo(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

// Returns the layout changed to that of NeMo before Megatron core: gate and up are separate tensors
// (linear_fc1_2), and attention rows are ordered by kind (all q, all k, all v).
std::vector<Stored> with_gate_apart(std::vector<Stored> layout);

}  // namespace roll::convert
