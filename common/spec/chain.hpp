// Chains: `then:` of a job file lists jobs that follow it, each after the previous one and its
// export. In them "{previous.output}", "{NAME.result}" and "{NAME.id}" refer to an earlier job's
// directory, the model it made, and its id. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/spec/job.hpp"

namespace roll::spec {

// Returns whether a path begins with such a reference. Such a path does not exist yet.
bool is_reference(const std::string& path);

// Reports references to unknown jobs, and arrays or chains inside a chain.
std::vector<Problem> check_chain(const JobSpec& first);

// Returns the jobs of a chain, without `then` and with all references resolved. The first has the
// id `id`, the others the next ids. Returns one job if there is no chain.
std::vector<JobSpec> chain_of(const JobSpec& first, JobId id);

}  // namespace roll::spec
