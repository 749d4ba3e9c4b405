// Reads the optimizer of a foreign configuration.
#pragma once

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Reads the keys `optim` and `use_muon`. Adds a problem if Roll does not have the optimizer.
void read_optimizer(const Config& config);

}  // namespace roll::cli
