// What rolld says about jobs, nodes and events, as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

// The keys of a summary in a list with commas between. Error InvalidArgument: a job has no such
// key.
Result<std::vector<std::string>> job_keys(const std::string& list);

// What jobs_text() shows with these keys: no other field need be asked for.
std::vector<std::string> job_fields(const std::vector<std::string>& keys);

// `jobs` is the reply's list of summaries; `keys` to show instead of the usual columns, if any.
std::string jobs_text(const Json& jobs, const std::vector<std::string>& keys, Time now, bool color);
std::string job_text(const Json& job, Time now, bool color);
std::string nodes_text(const Json& nodes);
std::string event_text(const Json& event);

bool is_over(const Json& job);

// The status that `wait` ends with: the job's own code; 1 if a job that did not end well has none.
int exit_status(const Json& job);

// "step 120/300  loss 2.310  41.2k tokens/s  1m 05s left"; empty if nothing is known yet.
std::string progress_text(const Json& job);

}  // namespace roll::cli
