// Determines which of a family's packed tensors a model has: from the files of a HuggingFace
// directory, else from the native (Megatron) config. A packed tensor on disk holds several tensors
// of the model, such as all experts of a layer. The native config keeps the result, so that the
// model converts back unchanged.
#pragma once

#include "common/error.hpp"
#include "worker/convert/carried.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Decides from the native config which packed tensors the model has.
Result<void> select_packed(Source& source);

// Decides which packed tensors the model has from `found`, the names and shapes in the directory's
// files, and records this in the native config. Fails with InvalidArgument if a shape fits two ways
// of packing.
Result<void> settle_packed(Source& source, const Shapes& found);

}  // namespace roll::convert
