// What rolld says about jobs, nodes and events, as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/output_format.hpp"
#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

const Fields& job_fields();   // what -o may name of a job: keys of a summary, `time` and `info`
const Fields& node_fields();  // and of a node: keys, `state` in words and `heard`

// The keys of a summary that jobs_text() reads: no other need be asked for.
std::vector<std::string> asked_fields(const Format& format);

// `jobs` and `nodes` are the replies' lists.
std::string jobs_text(const Json& jobs, const Format& format, Time now, bool color);
std::string job_text(const Json& job, Time now, bool color);
std::string nodes_text(const Json& nodes, const Format& format = {});
std::string event_text(const Json& event);

bool is_over(const Json& job);

// The status that `wait` ends with: the job's own code; 1 if a job that did not end well has none.
int exit_status(const Json& job);

// "step 120/300  loss 2.310  41.2k tokens/s  1m 05s left"; empty if nothing is known yet.
std::string progress_text(const Json& job);

// How a job stands, in a line; on a terminal, `width` columns wide (0: none), with a bar where
// there is room, and cut to fit unless the job is over.
std::string job_line(const Json& job, std::size_t width, bool color);

}  // namespace roll::cli
