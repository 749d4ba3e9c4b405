// The checkpoints of a training and their exports, as JSON for clients.
#pragma once

#include "common/json.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::query {

Json checkpoints_json(const core::Job& job);
// Returns the exports that `export.every` asks for, with their steps.
Json exports_json(const core::Job& job);

}  // namespace roll::query
