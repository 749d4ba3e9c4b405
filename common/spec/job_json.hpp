// The codec of JobSpec (spec/job.hpp) as JSON values, for messages and rows that hold one inside.
#pragma once

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

Json json_of(const JobSpec& spec);  // every field, defaults included
Result<JobSpec> job_spec_of(const Json& json);

}  // namespace roll::spec
