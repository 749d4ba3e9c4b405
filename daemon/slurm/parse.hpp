// Parses the output of Slurm's commands in formats that Roll requests. The functions are pure.
// Slurm 22.05.8 to 26.05.3 prints these fields in the same way. If output is truncated or
// unexpected, the functions fail with Corrupt and use no part of the output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "daemon/slurm/states.hpp"

namespace roll::slurm {

// A row of squeue --format=kQueueFormat. The comment is the last field, because it may contain the
// separator.
inline constexpr const char* kQueueFormat = "%i|%T|%r|%S|%e|%D|%N|%k";
struct QueueRow {
    std::string id;
    std::string state;
    Phase phase = Phase::Unknown;
    std::string reason;                   // reason why the job is pending
    std::optional<std::int64_t> start{};  // start in Unix seconds; for a pending job an estimate
    std::optional<std::int64_t> end{};
    int nodes = 0;
    std::string comment{};
    friend bool operator==(const QueueRow&, const QueueRow&) = default;
};
Result<std::vector<QueueRow>> parse_queue(std::string_view text);

// Parses the output of sbatch --parsable, "123" or "123;cluster". Returns the id of the job.
Result<std::string> parse_submitted(std::string_view text);

// A row of sinfo --format=kPartitionFormat. There is one row per node type of a partition.
inline constexpr const char* kPartitionFormat = "%R|%a|%l|%D|%c|%G";
struct PartitionRow {
    std::string name;
    bool up = false;
    std::optional<std::int64_t> limit_seconds{};  // time limit; nullopt: no limit
    int nodes = 0;
    int cpus = 0;  // CPUs per node
    int gpus = 0;  // GPUs per node, of all types
};
Result<std::vector<PartitionRow>> parse_partitions(std::string_view text);

// A node in the output of `scontrol --oneliner show node`. Nodes that Slurm does not know have no
// row.
struct NodeRow {
    std::string name;
    std::string state;
    bool down = false;
    friend bool operator==(const NodeRow&, const NodeRow&) = default;
};
Result<std::vector<NodeRow>> parse_nodes(std::string_view text);

// The outcome of a submission, derived from the result of sbatch. Unknown means that the job may
// have been queued.
enum class Submission { Accepted, Refused, Unknown };
Submission judge_submission(bool timed_out, int exit_code, std::string_view errors);

}  // namespace roll::slurm
