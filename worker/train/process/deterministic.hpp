// Implements train.deterministic: two runs of a job with the same layout, threads, processors and
// LibTorch are bitwise identical, checkpoint files included.
#pragma once

#include <string>

namespace roll::train {

// Makes this process deterministic. Call it before the first use of a device. Returns a line for
// the log that says what is turned off and what that costs.
std::string make_deterministic(bool on_gpus);

}  // namespace roll::train
