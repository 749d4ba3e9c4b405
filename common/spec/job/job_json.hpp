// The codec of JobSpec (common/spec/job/job.hpp) as JSON values, for messages and ledger rows that
// contain a JobSpec.
#pragma once

#include "common/json.hpp"
#include "common/json_text.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Encode a spec as JSON. text_of() writes the same text as json_of(), but builds no tree.
Json json_of(const JobSpec& spec);
JsonText text_of(const JobSpec& spec);
Result<JobSpec> job_spec_of(const Json& json);

}  // namespace roll::spec
