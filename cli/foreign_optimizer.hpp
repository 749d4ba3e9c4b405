// The optimizer of a foreign configuration.
#pragma once

#include "cli/foreign_config.hpp"

namespace roll::cli {

// Reads `optim` and `use_muon`. Refuses optimizers that Roll does not have.
void read_optimizer(const Config& config);

}  // namespace roll::cli
