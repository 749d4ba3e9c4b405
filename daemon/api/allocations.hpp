// The operations of `rollctl alloc`.
#pragma once

#include "common/protocol/cluster_operations.hpp"
#include "daemon/api/context.hpp"

namespace roll::api {

// Returns the commands that an order of this queue would run, with the text KEY in place of the
// order's key.
Result<Json> dry_run(const Context& context, const protocol::AllocDryRunArgs& args);

}  // namespace roll::api
