// Implements train.deterministic: if two runs of a job have the same layout, number of threads,
// processors and LibTorch, their results are bitwise identical, including the checkpoint files.
#pragma once

#include <string>

namespace roll::train {

// Makes this process deterministic. Must be called before the first use of a device. Returns a line
// for the log. The line lists the optimizations that are turned off, and says what this costs.
std::string make_deterministic(bool on_gpus);

}  // namespace roll::train
