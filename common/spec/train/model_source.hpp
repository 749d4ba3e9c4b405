// Reads the key `model` of a train job that starts from another model (model.from). Pure.
#pragma once

#include "common/json.hpp"

namespace roll::spec {

// Returns the dropout keys of a job's `model` section. If model.from is set, they override the
// dropouts in that model's config.
Json dropouts_of(const Json& model);

}  // namespace roll::spec
