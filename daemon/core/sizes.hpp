// Limits on the sizes in a submission, as in schemas/job.schema.json. The command line checks job
// files against the schema; these also check messages.
#pragma once

#include "common/error.hpp"
#include "common/spec/job.hpp"

namespace roll::core {

// Checks the sizes in a spec. Fails with InvalidArgument and names the key.
Result<void> check_sizes(const spec::JobSpec& spec);

// Checks the total size of all jobs made from `spec`, because each of them holds the whole
// document.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs);

}  // namespace roll::core
