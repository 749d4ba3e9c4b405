// Reads the key `model` of a train job that starts from another model (model.from). Pure.
#pragma once

#include "common/json.hpp"

namespace roll::spec {

// Returns the keys of a job's `model` section that override the config of the model in model.from:
// the dropouts, and the factor of the experts' balance loss.
Json overridden_of(const Json& model);

}  // namespace roll::spec
