// Checks the keys of a train job that start from another model (model.from). Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/problem.hpp"

namespace roll::spec {

// Returns the dropout keys of a job's `model` section. If model.from is set, they override the
// dropouts in that model's config.
Json dropouts_of(const Json& model);

// Returns a problem for each key of `model` that does not fit model.from, or needs it.
std::vector<Problem> model_source_problems(const Json& document);

}  // namespace roll::spec
