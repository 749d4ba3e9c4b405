// Reads the optimizer of a foreign configuration.
#pragma once

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Reads the keys `optim` and `use_muon`. Adds a problem if Roll does not have the optimizer.
void read_optimizer(const Config& config);

// Reads Megatron's keys for the offload of the optimizer's state. Adds a problem if only a part of
// the state is to be offloaded. Also reads the keys of Megatron and TRL for the offload of
// activations.
void read_offload(const Config& config);

}  // namespace roll::cli
