// The export job that follows a training job.
#pragma once

#include "common/spec/job/job.hpp"

namespace roll::spec {

// Returns the convert job that exports the model of `parent` after `parent` has succeeded. Pure.
JobSpec export_job(const JobSpec& parent, JobId parent_id);

}  // namespace roll::spec
