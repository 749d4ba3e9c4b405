// Whether jobs may write to their output directories, as far as this machine sees those.
#pragma once

#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/spec/job.hpp"

namespace roll::cli {

// Error Refused names the first job whose output directory user `uid`, who runs the jobs, may not
// make or write to. A directory of which this machine knows neither itself nor its parent nor the
// one above counts as writable: it may lie on a volume of the nodes alone.
Result<void> check_outputs(const std::vector<spec::JobSpec>& specs, uid_t uid);

}  // namespace roll::cli
