// Checks the specification of a job. check_job() calls this check for a job file, and rolld for
// each job that a client submits, because any client may send a specification. Pure.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each rule that the specification, or a later job of its chain, breaks.
// Numbers have the same limits as in schemas/job.schema.json.
std::vector<Problem> spec_problems(const JobSpec& spec);

// Fails with InvalidArgument and the first problem of spec_problems(), if there is one.
Result<void> check_spec(const JobSpec& spec);

}  // namespace roll::spec
