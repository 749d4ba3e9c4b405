// Chains: `then:` of a job file lists jobs that follow the file's job. Each job starts after the
// previous job and the export of the previous job. The listed jobs may refer to an earlier job:
// "{previous.output}" is replaced by that job's directory, "{NAME.result}" by the model that the
// job made, and "{NAME.id}" by the job's id. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/spec/job.hpp"

namespace roll::spec {

// Returns whether a path begins with a reference to an earlier job. Such a path does not exist yet.
bool is_reference(const std::string& path);

// Returns a problem for each reference to an unknown job, and for arrays or chains inside a chain.
std::vector<Problem> check_chain(const JobSpec& first);

// Returns the jobs of a chain, without `then` and with all references resolved. The first job gets
// the id `id`, and the others get the next ids. Returns one job if `first` has no `then`.
std::vector<JobSpec> chain_of(const JobSpec& first, JobId id);

}  // namespace roll::spec
