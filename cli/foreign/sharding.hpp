// Reads how a foreign configuration divides a model among its data-parallel ranks.
#pragma once

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Sets parallel.zero from `deepspeed`, `fsdp` and `use_distributed_optimizer`. `deepspeed` is
// DeepSpeed's configuration, or the path of its JSON file. Adds a problem for each setting of
// DeepSpeed that differs from the same setting of the configuration.
void read_sharding(const Config& config);

}  // namespace roll::cli
