// Checks how a train job draws samples from its files: weights, curriculum, order, packing and
// truncation.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns the problems of data.weights, data.curriculum, data.order, data.split, data.packing
// and data.truncate.
// Ignores missing keys and wrong types, because the schema's checker reports these.
std::vector<Problem> blend_problems(const Json& document);

}  // namespace roll::spec
