// Translates options of sbatch into keys of a job file.
#pragma once

#include <string>
#include <vector>

#include "cli/slurm/options.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

struct SbatchReading {
    Json document;                        // job file made from the script
    std::vector<std::string> read;        // one line per option, which says how the option was read
    std::vector<std::string> problems;    // one sentence per problem
    std::vector<std::string> submission;  // options such as "wait" that set no key of the job file
};

// Sets keys of `document`, a command's job file, from the options. If an option is given several
// times, the last one applies. Times of day are relative to `now`.
SbatchReading translate_sbatch(const std::vector<SbatchOption>& options, Json document, Time now);

}  // namespace roll::cli
