// Checks the job file of a sweep and makes the specification of its array.
#pragma once

#include <functional>

#include "common/json.hpp"
#include "common/spec/check/parsed_job.hpp"

namespace roll::spec {

// Parses the job document of one trial, which has no key `sweep`.
using ParseTrial = std::function<ParsedJob(const Json& document)>;

// Parses a job document with the key `sweep`. Checks each trial as a separate job. Fails if a trial
// changes keys that the scheduler reads, such as `resources`.
ParsedJob parse_sweep(const Json& document, const ParseTrial& parse);

}  // namespace roll::spec
