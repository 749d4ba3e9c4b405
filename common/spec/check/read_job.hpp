// Makes the specification of a job from its checked document. Pure.
#pragma once

#include "common/json.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Reads a document that has passed the checks and has all defaults. Adds ROLL_ARRAY_INDEX to the
// environment of an array's commands.
JobSpec read_spec(Json& document);

}  // namespace roll::spec
