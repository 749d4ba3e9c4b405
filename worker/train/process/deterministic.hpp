// Implements train.deterministic: if two runs of a job have the same layout, threads, processors
// and LibTorch, their results are bitwise identical, checkpoint files included.
#pragma once

#include <string>

namespace roll::train {

// Makes this process deterministic. Call it before the first use of a device. Returns a line for
// the log that says which optimizations are turned off and what that costs.
std::string make_deterministic(bool on_gpus);

}  // namespace roll::train
