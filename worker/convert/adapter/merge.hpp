// Attaches LoRA adapters to an opened model, so that a conversion merges them.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// The direction of a merge. In adds scale * B A to the weight W. Out subtracts scale * B A from W,
// and thereby undoes an earlier merge.
enum class Folding { In, Out };

// Attaches an adapter to an opened model. If the adapter saves a whole module, the module's tensors
// replace the model's tensors. Each LoRA module becomes a delta. The delta changes a tensor of the
// model when the tensor is read. Fails if a tensor of the adapter does not fit the model.
// Folding::Out also fails for saved whole modules and for DoRA, because the base's values cannot be
// restored from them.
Result<void> attach_adapter(Source& source, const std::filesystem::path& adapter,
                            Folding folding = Folding::In);

}  // namespace roll::convert
