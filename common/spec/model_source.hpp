// Checks the key `model` of a train job that starts from another model (model.from). Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/problem.hpp"

namespace roll::spec {

// Returns the dropout keys of a job's `model` section. If model.from is set, they override the
// dropouts in that model's config.
Json dropouts_of(const Json& model);

// Returns a problem for each key of `model` that cannot be combined with model.from. If model.from
// is not set, also returns a problem for each key that needs model.from.
std::vector<Problem> model_source_problems(const Json& document);

}  // namespace roll::spec
