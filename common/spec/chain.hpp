// Chains: `then:` of a job file lists jobs that follow that job. Each job starts after the
// previous job and the previous job's export. In the listed jobs, "{previous.output}",
// "{NAME.result}" and "{NAME.id}" are replaced by an earlier job's directory, by the model that
// the job made, and by its id. Pure functions.
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
// the id `id`, the others the next ids. Returns one job if `first` has no `then`.
std::vector<JobSpec> chain_of(const JobSpec& first, JobId id);

}  // namespace roll::spec
