// The operations of `rollctl alloc`.
#pragma once

#include "common/protocol/allocation_operations.hpp"
#include "daemon/api/context.hpp"

namespace roll::api {

// Returns the sbatch command and the batch script that would request the next allocation from the
// queue in `args`.
Result<Json> dry_run(const Context& context, const protocol::AllocDryRunArgs& args);

}  // namespace roll::api
