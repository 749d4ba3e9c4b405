// Reads the key `model` of a train job that starts from another model (model.from). Pure.
#pragma once

#include "common/json.hpp"

namespace roll::spec {

// Returns the dropout keys of a job's `model` section. If model.from is set, these keys override
// the dropouts in the config of the model in model.from.
Json dropouts_of(const Json& model);

}  // namespace roll::spec
