// Opens MCA checkpoints (ROLL's mcore_adapter): one torch file for each rank.
#pragma once

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Opens the checkpoint at source.directory.
Result<void> open_mca(Source& source, const families::Families& families);

}  // namespace roll::convert
