// Chains: a job file's `then:` lists jobs that follow it, each after the one before (and its
// export). In them "{previous.output}", "{NAME.result}" and "{NAME.id}" stand for an earlier job's
// directory, the model that it made, and its number. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/spec/job.hpp"

namespace roll::spec {

// Whether a path begins with such a name, and so is none yet.
bool is_reference(const std::string& path);

// Names that lead nowhere; arrays and chains within chains.
std::vector<Problem> check_chain(const JobSpec& first);

// The jobs of a chain whose first has this number, the others the next ones: `then` is gone, and
// all names are what they stand for. One without a chain is alone.
std::vector<JobSpec> chain_of(const JobSpec& first, JobId id);

}  // namespace roll::spec
