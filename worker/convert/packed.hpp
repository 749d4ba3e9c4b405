// Determines which of a family's packed tensors a model has: from the files of a HuggingFace
// directory, else from the native config. The result is kept in the config, so that the model
// converts back unchanged.
#pragma once

#include "common/error.hpp"
#include "worker/convert/carried.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Sets the model's packed tensors from the native config.
Result<void> select_packed(Source& source);

// Sets the native config's fields about packing from `found`, the names and shapes in the
// directory's files, then selects the packed tensors. Fails with InvalidArgument if a shape fits
// two packings.
Result<void> settle_packed(Source& source, const Shapes& found);

}  // namespace roll::convert
