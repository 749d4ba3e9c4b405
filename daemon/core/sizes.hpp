// The sizes that a submission may have: those of schemas/job.schema.json, to which the command line
// holds a job file and nobody holds a message.
#pragma once

#include "common/error.hpp"
#include "common/spec/job.hpp"

namespace roll::core {

// Error InvalidArgument names the key.
Result<void> check_sizes(const spec::JobSpec& spec);

// Of all jobs that are made of this one: each holds the whole document.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs);

}  // namespace roll::core
