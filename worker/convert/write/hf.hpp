// Writes HuggingFace directories.
#pragma once

#include <filesystem>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"
#include "worker/convert/write/output.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {

// Returns the tensors of a HuggingFace target and assigns them to shards. The shards are split by
// the sizes of the source's tensors after the requested cast.
Result<std::vector<Stored>> sharded_hf_layout(const Source& source, const Output& output,
                                              const formats::HfContainer& container);

// Writes config.json.
Result<void> write_hf_config(const Source& source, const Plan& plan, const Output& output,
                             const std::filesystem::path& directory);

// Writes the index of a plan's weight files.
Result<void> write_index(const Plan& plan, const formats::HfContainer& container,
                         const std::filesystem::path& directory);

// Writes config.json. If there are several weight files, also writes their index.
Result<void> write_hf_companions(const Source& source, const Plan& plan, const Output& output,
                                 const formats::HfContainer& container,
                                 const std::filesystem::path& directory);

}  // namespace roll::convert
