// train.deterministic: two runs of one job on the same layout, threads, processors and LibTorch are
// bitwise the same, checkpoint files too.
#pragma once

#include <string>

namespace roll::train {

// Before the first use of a device. What it turned off and costs, for people.
std::string make_deterministic(bool on_gpus);

}  // namespace roll::train
