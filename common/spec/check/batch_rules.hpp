// Checks the keys of a train job that determine the sizes and the grouping of batches. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each rule that train.batch_size_schedule, train.balance or
// train.microbatch_limit breaks. `dp`: data-parallel size; nullopt: unknown.
std::vector<Problem> batch_problems(const Json& document, std::optional<std::int64_t> dp);

}  // namespace roll::spec
