// Formats rolld's replies about jobs, nodes and events as text. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/client/look.hpp"
#include "cli/text/output_format.hpp"
#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

const Fields& job_fields();   // fields for `jobs -o`: a job's keys, `time` and `info`
const Fields& node_fields();  // fields for `nodes -o`: a node's keys, `state` and `heard`

// Returns the keys of a job's summary that jobs_text() needs for this format.
std::vector<std::string> asked_fields(const Format& format);

// Format the rows of a reply to `jobs` or `nodes` as text. A row with `fold` stands for the tasks
// of a job array.
std::string jobs_text(const Json& jobs, const Format& format, const Look& look);
std::string job_text(const Json& job, const Look& look);
std::string nodes_text(const Json& nodes, const Format& format = {}, const Look& look = {});
std::string node_state(const Json& node);  // returns "up", "draining", "silent" ...
std::string node_heard(const Json& node);  // returns "2s ago", or "" if the time is unknown
std::string event_text(const Json& event, bool local = false);

// Returns the id of a row of `jobs`: "7", or "17[1-100]" for the tasks of an array.
std::string id_text(const Json& job);
// Returns the reason why a job waits, its progress, or the reason why it ended. For the tasks of an
// array, returns the number of tasks in each state, such as "72 done, 8 running, 20 waiting".
std::string info_text(const Json& job);
// Returns how long the job has been queued or running. For an ended job, returns how long it ran,
// or "" if it ended without a run.
std::string time_text(const Json& job, Time now);

bool is_over(const Json& job);

// Returns the exit status of `wait` for an ended job: 0 if the job succeeded or was stopped by
// successive halving, else the job's exit code. A failed job without an exit code gives 1.
int exit_status(const Json& job);

// Returns text such as "step 120/300  loss 2.310  41.2k tokens/s  1m 05s left"; empty if the job
// has reported no progress.
std::string progress_text(const Json& job);

// Returns the job's state and progress in one line. `width` is the width of the terminal; 0 if
// stdout is not a terminal. On a terminal, the line has a progress bar if there is room for the
// bar. On a terminal, the line is also cut to `width` columns, but the line of an ended job is
// never cut.
std::string job_line(const Json& job, std::size_t width, bool color);

}  // namespace roll::cli
