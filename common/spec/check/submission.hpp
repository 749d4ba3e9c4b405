// Checks a specification that a client has sent to rolld.
#pragma once

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Checks that the documents of a submission can be parsed and have the structure that rolld needs.
// The client has checked everything else.
Result<void> check_documents(const JobSpec& spec);

// Fails with InvalidArgument if the document of an array has `sweep`, but `sweep.trials` is not a
// list with a mapping for each task. A client may send any document.
Result<void> check_trials(const JobSpec& spec);

}  // namespace roll::spec
