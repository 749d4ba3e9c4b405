// Implements train.deterministic: two runs of a job with the same layout, number of threads,
// processors and LibTorch have bitwise identical results, including the checkpoint files.
#pragma once

#include <string>

namespace roll::train {

// Makes this process deterministic. Must be called before the first use of a device. Returns a line
// for the log that lists the optimizations that are turned off and their cost.
std::string make_deterministic(bool on_gpus);

}  // namespace roll::train
