// Checks how a train job draws samples from its files: weights, curriculum and order.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/problem.hpp"

namespace roll::spec {

// Returns the problems of data.weights, data.curriculum, data.order and data.split. Ignores missing
// keys and wrong types, because the schema's checker reports these.
std::vector<Problem> blend_problems(const Json& document);

}  // namespace roll::spec
