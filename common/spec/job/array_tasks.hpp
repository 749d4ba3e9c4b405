// Makes the tasks of a job array. Pure.
#pragma once

#include <vector>

#include "common/spec/job/job.hpp"

namespace roll::spec {

// Returns the spec of the task `index` of `array`: a copy with each "{index}" replaced.
JobSpec array_task(const JobSpec& array, int index);

// Returns the specs of the tasks `indices`. The tasks of a sweep have the documents of the sweep's
// trials (sweep.hpp).
std::vector<JobSpec> array_tasks(const JobSpec& array, const std::vector<int>& indices);

}  // namespace roll::spec
