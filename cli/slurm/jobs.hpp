// Formats Roll's jobs as Slurm's commands show jobs.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Returns the id of the job in Slurm's form: "12", or "12_3" for a task of an array.
std::string slurm_job_id(const Json& job);

// Splits a list of ids such as "12,14_[0,2]". Commas in brackets do not separate ids.
std::vector<std::string> split_ids(std::string_view text);

// Returns whether `id` names the job. `id` comes from a command line: it is the job's own id,
// "ARRAY", "ARRAY_INDEX" or "ARRAY_[INDICES]", such as "12_[0-3,7]".
bool is_meant(const Json& job, const std::string& id);

struct SlurmState {
    const char* name;   // long form of the state, such as "PENDING"
    const char* brief;  // short form of the state, such as "PD"
};
SlurmState slurm_state(const Json& job);
// Returns whether `name` is the long or short form of the job's state, or "all". Ignores case.
bool has_state(const Json& job, const std::string& name);
// Fails with InvalidArgument if one of the names is not a state of Slurm. `program` is the command
// that the message names.
Result<void> check_states(const std::string& program, const std::vector<std::string>& names);

// Returns the reason why a queued job waits, in Slurm's terms, such as "Dependency".
std::string slurm_reason(const Json& job, Time now);

// Returns the names of the job's nodes, separated by commas. The node name of a worker in a Slurm
// allocation ends with ".a" and a number, which make the name unique. Removes this suffix.
std::string slurm_nodes(const Json& job);
std::string slurm_node(const std::string& node);

// Formats a time as Slurm does, in local time. Returns `none` if there is no time.
std::string slurm_time_text(const Json& time, const char* none = "N/A");

// Returns the time for which the job has run.
std::chrono::seconds run_time(const Json& job, Time now);

// Returns the exit code as "3:0", or "0:9" for signal 9.
std::string slurm_exit_code(const Json& job);

int job_nodes(const Json& job);
int job_cpus(const Json& job);

// A column of squeue or sinfo, parsed from a format such as "%.18i".
struct SlurmColumn {
    std::string text;  // literal text before the field
    char field = 0;    // letter of the field; 0: the column has only text, at the end of a format
    bool right = false;
    std::size_t width = 0;  // width of the value; 0: the value is neither padded nor cut
};
std::vector<SlurmColumn> read_columns(std::string_view format);
// Returns one line. For each column, the line has the column's text, then the value, padded or cut
// to the column's width. Calls `value` only for columns with a field.
std::string columns_line(const std::vector<SlurmColumn>& columns,
                         const std::function<std::string(const SlurmColumn&)>& value);

}  // namespace roll::cli
