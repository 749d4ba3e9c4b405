// Rules that apply to all kinds of jobs, and that the schema cannot express. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns the problems of the first rule that a document breaks. Requires that the document has
// passed the schema's check and has all defaults.
std::vector<Problem> job_problems(const Json& document);

}  // namespace roll::spec
