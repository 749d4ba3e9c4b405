// Roll's jobs as Slurm's commands show them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Returns the job's id: "12", or "12_3" for a job of an array.
std::string slurm_job_id(const Json& job);

// Returns whether an id on a command line means the job: its own id, "ARRAY" or "ARRAY_INDEX".
bool is_meant(const Json& job, const std::string& id);

struct SlurmState {
    const char* name;   // "PENDING"
    const char* brief;  // "PD"
};
SlurmState slurm_state(const Json& job);
// Returns whether a name of a state, long or brief, in any case, means the job's state.
bool has_state(const Json& job, const std::string& name);

// Returns Slurm's word for why a queued job waits, such as "Dependency".
std::string slurm_reason(const Json& job, Time now);

// Returns the names of the job's nodes, without the ends that make names of pilots unique.
std::string slurm_nodes(const Json& job);
std::string slurm_node(const std::string& node);

// Formats a time as Slurm does, in local time; "N/A" or `none` if there is none.
std::string slurm_time_text(const Json& time, const char* none = "N/A");

// Returns for how long the job has run.
std::chrono::seconds run_time(const Json& job, Time now);

// Returns the exit code as "3:0", or "0:9" for signal 9.
std::string slurm_exit_code(const Json& job);

int job_nodes(const Json& job);
int job_cpus(const Json& job);

// A column of squeue or sinfo: "%.18i".
struct SlurmColumn {
    std::string text;  // literal text before the field
    char field = 0;    // 0: only text, at the end of a format
    bool right = false;
    std::size_t width = 0;  // 0: as wide as the value
};
std::vector<SlurmColumn> read_columns(std::string_view format);
// Returns a line: the columns' texts, each followed by its value padded or cut to the column's
// width. `value` is called only for columns with a field.
std::string columns_line(const std::vector<SlurmColumn>& columns,
                         const std::function<std::string(const SlurmColumn&)>& value);

}  // namespace roll::cli
