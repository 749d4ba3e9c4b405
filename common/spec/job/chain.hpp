// Chains: `then:` of a job file lists jobs that follow the file's job. Each job starts after the
// previous job and the export of the previous job. The listed jobs may refer to an earlier job:
// "{previous.output}" is replaced by that job's directory, "{NAME.result}" by the model that the
// job made, and "{NAME.id}" by the job's id. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/spec/job/job.hpp"

namespace roll::spec {

// Returns the jobs of a chain, without `then` and with all references resolved. The first job gets
// the id `id`, and the others get the next ids. Returns one job if `first` has no `then`.
std::vector<JobSpec> chain_of(JobSpec first, JobId id);

// Returns the earlier job of a chain that `name` refers to; nullptr if there is none.
const JobSpec* earlier_job(const std::vector<JobSpec>& before, const std::string& name);

// Returns the directory of the model that the job makes; empty if the job makes no model.
std::string result_directory(const JobSpec& spec);

}  // namespace roll::spec
