// Attaches LoRA adapters to an opened model, so that a conversion merges them.
#pragma once

#include <filesystem>

#include "common/error.hpp"

namespace roll::convert {

struct Source;

// In adds scale * B A to W. Out subtracts scale * B A from a W into which it was merged.
enum class Folding { In, Out };

// Attaches an adapter to an opened model. Modules that the adapter saves whole replace the model's
// tensors; LoRA modules become deltas. Fails if a tensor of the adapter does not fit the model.
// Folding::Out fails for whole modules and DoRA, because the base's values cannot be restored from
// them.
Result<void> attach_adapter(Source& source, const std::filesystem::path& adapter,
                            Folding folding = Folding::In);

}  // namespace roll::convert
