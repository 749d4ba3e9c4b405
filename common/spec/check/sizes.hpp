// Checks that the sizes in a train job agree: batches, heads, ranks, lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each pair of sizes that do not agree. Ignores missing keys and wrong types,
// because the schema's checker reports them.
std::vector<Problem> impossible_sizes(const Json& document);

// Returns a problem if a model with this number of layers cannot be divided into the job's pipeline
// stages, else nullopt.
std::optional<Problem> undivided_layers(const Json& document, std::int64_t layers);

}  // namespace roll::spec
