// Checks that the sizes in a train job agree: batches, heads, ranks, lengths.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Returns problems of sizes. Ignores missing keys and wrong types, which the schema's checker
// reports.
std::vector<Problem> impossible_sizes(const Json& document);

// Returns the dropout keys of a job's `model`. With model.from they override the model's config.
Json dropouts_of(const Json& model);

}  // namespace roll::spec
