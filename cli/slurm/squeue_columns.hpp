// The columns of squeue: their values, their names, and how to sort by them.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "cli/client/daemon.hpp"
#include "cli/slurm/jobs.hpp"

namespace roll::cli {

struct QueueRow {
    const Json& job;  // row of the reply to `jobs`
    Time now;
    Daemon& daemon;

    // Returns the job's time limit; 0 if it has none.
    std::chrono::seconds limit() const;
    // Returns the value of a key of the job file. Only the reply to `show` contains the job file.
    // Returns "" if the value cannot be read.
    std::string key(const char* pointer) const;
    bool pending() const;
};

struct QueueColumn {
    const char* type;  // name of the column in -O
    const char* title;
    std::string (*value)(const QueueRow&);
};

// Returns all columns by their letter in -o.
const std::map<char, QueueColumn>& queue_columns();

// Parses the value of -o. Fails with InvalidArgument if a field has no meaning in Roll.
Result<std::vector<SlurmColumn>> read_queue_format(const std::string& format);
// Parses the value of -O, such as "JobID:.10,Name:30". Fails as read_queue_format() does.
Result<std::vector<SlurmColumn>> read_queue_types(const std::string& types);

// Sorts the jobs by the value of -S, such as "P,-t,i". Fails with InvalidArgument if a field has no
// meaning in Roll.
Result<void> sort_queue(std::vector<Json>& jobs, const std::string& fields, Daemon& daemon,
                        Time now);

// Returns the jobs in the form of `squeue --json`, with those keys that have a meaning in Roll.
Json queue_json(const std::vector<Json>& jobs, Daemon& daemon, Time now);

}  // namespace roll::cli
