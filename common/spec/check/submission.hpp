// Checks the documents of a submission. rolld makes these checks for each submission, because any
// client may send any document. Pure.
#pragma once

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Checks that the documents of the specification, and of the later jobs of its chain, can be parsed
// and have the structure that rolld needs. Also checks that rollctl has replaced each value `auto`.
// The programs of the job check everything else. Fails with InvalidArgument.
Result<void> check_submission(const JobSpec& spec);

}  // namespace roll::spec
