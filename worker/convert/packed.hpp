// Which of a family's packed tensors a model has: in a HuggingFace directory as its files say, else
// as the native config says. The config remembers it, so that a model goes back as it came.
#pragma once

#include "common/error.hpp"
#include "worker/convert/carried.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Sets the model's packed tensors by the native config.
Result<void> select_packed(Source& source);

// Sets the native fields by the names and shapes in the directory's files, then selects.
// InvalidArgument: a shape that fits two packings.
Result<void> settle_packed(Source& source, const Shapes& found);

}  // namespace roll::convert
