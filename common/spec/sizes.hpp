// What must agree across the fields of a train job: batches, heads, ranks, lengths.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Looks at what is there and has its right type; the schema's checker reports the rest.
std::vector<Problem> impossible_sizes(const Json& document);

// Returns the dropout keys of a job's `model`; beside model.from they replace the model's own.
Json dropouts_of(const Json& model);

}  // namespace roll::spec
