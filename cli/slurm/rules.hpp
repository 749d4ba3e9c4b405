// Translates options of sbatch into keys of a job file.
#pragma once

#include <string>
#include <vector>

#include "cli/slurm/options.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

struct SbatchReading {
    Json document;                        // the job file
    std::vector<std::string> read;        // how each option was read, one line each
    std::vector<std::string> problems;    // one sentence each
    std::vector<std::string> submission;  // options such as "wait" that set no key of the job file
};

// Sets keys of `document`, a command's job file, from the options. Of equal options, the last one
// counts. `now` is the time to which times of day refer.
SbatchReading translate_sbatch(const std::vector<SbatchOption>& options, Json document, Time now);

}  // namespace roll::cli
