// Opens HuggingFace directories.
#pragma once

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Opens the checkpoint at source.directory.
Result<void> open_hf(Source& source, const families::Families& families);

}  // namespace roll::convert
