// Formats rolld's replies about jobs, nodes and events as text. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/output_format.hpp"
#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

const Fields& job_fields();   // fields that `jobs -o` accepts: a job's keys, `time` and `info`
const Fields& node_fields();  // fields that `nodes -o` accepts: a node's keys, `state` and `heard`

// Returns the keys of a job's summary that jobs_text() needs for this format.
std::vector<std::string> asked_fields(const Format& format);

// Format the rows of a reply to `jobs` or `nodes` as text.
std::string jobs_text(const Json& jobs, const Format& format, Time now, bool color);
std::string job_text(const Json& job, Time now, bool color);
std::string nodes_text(const Json& nodes, const Format& format = {});
std::string event_text(const Json& event);

bool is_over(const Json& job);

// Returns the exit status of `wait` for a job that has ended: 0 if it succeeded, else its exit
// code, or 1 if the job has no exit code.
int exit_status(const Json& job);

// Returns text such as "step 120/300  loss 2.310  41.2k tokens/s  1m 05s left"; empty if the job
// has reported no progress.
std::string progress_text(const Json& job);

// Returns the job's state and progress in one line. `width` is the width of the terminal; 0 if
// stdout is not a terminal. On a terminal the line has a bar if there is room for it, and is cut to
// `width` unless the job has ended.
std::string job_line(const Json& job, std::size_t width, bool color);

}  // namespace roll::cli
