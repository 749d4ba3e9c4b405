// Limits on the sizes in a submission, as in schemas/job.schema.json. rollctl checks job files
// against the schema; rolld checks messages with these functions.
#pragma once

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::core {

// Checks the sizes in a spec. Fails with InvalidArgument; the message names the key whose value is
// too large.
Result<void> check_sizes(const spec::JobSpec& spec);

// Fails if the total size of `jobs` jobs made from `spec` would be too large. Each of these jobs
// holds the whole document.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs);

}  // namespace roll::core
