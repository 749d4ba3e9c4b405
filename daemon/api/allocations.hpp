// The operations of `rollctl alloc`.
#pragma once

#include "common/protocol/allocation_operations.hpp"
#include "daemon/api/context.hpp"

namespace roll::api {

// Returns the commands that would request an allocation from this queue. The text KEY stands for
// the key of the request.
Result<Json> dry_run(const Context& context, const protocol::AllocDryRunArgs& args);

}  // namespace roll::api
