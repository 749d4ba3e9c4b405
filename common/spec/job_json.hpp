// The codec of JobSpec (spec/job.hpp) as JSON values, for messages and rows that hold one inside.
#pragma once

#include "common/json.hpp"
#include "common/json_text.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Every field, defaults included; the same as text, without a tree.
Json json_of(const JobSpec& spec);
JsonText text_of(const JobSpec& spec);
Result<JobSpec> job_spec_of(const Json& json);

}  // namespace roll::spec
