// Attaches LoRA adapters to an opened model, so that a conversion merges them.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// The direction of a merge. In adds scale * B A to W. Out subtracts scale * B A from W, to undo an
// earlier merge.
enum class Folding { In, Out };

// Attaches an adapter to an opened model. If the adapter saves a module whole, its tensors replace
// the model's; LoRA modules become deltas (changes that are applied when a tensor is read). Fails
// if a tensor of the adapter does not fit the model. Folding::Out fails for whole modules and DoRA,
// because the base's values cannot be restored from them.
Result<void> attach_adapter(Source& source, const std::filesystem::path& adapter,
                            Folding folding = Folding::In);

}  // namespace roll::convert
