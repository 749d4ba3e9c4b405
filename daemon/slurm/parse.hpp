// The output of Slurm's commands, by formats that Roll names itself. Pure; what prints these fields
// is the same in the sources of Slurm 22.05.8 to 26.05.3. What is cut or no such output is an Error
// Corrupt: then nothing of it is believed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "daemon/slurm/states.hpp"

namespace roll::slurm {

// A row of squeue --format=kQueueFormat. Free text last: it may hold the separator.
inline constexpr const char* kQueueFormat = "%i|%T|%r|%S|%e|%D|%N|%k";
struct QueueRow {
    std::string id;
    std::string state;
    Phase phase = Phase::Unknown;
    std::string reason;                   // why it waits
    std::optional<std::int64_t> start{};  // Unix seconds; of a pending one a guess
    std::optional<std::int64_t> end{};
    int nodes = 0;
    std::string node_list{};
    std::string comment{};
    friend bool operator==(const QueueRow&, const QueueRow&) = default;
};
Result<std::vector<QueueRow>> parse_queue(std::string_view text);

// sbatch --parsable: "123" or "123;cluster". The job's id.
Result<std::string> parse_submitted(std::string_view text);

// A row of sinfo --format=kPartitionFormat, one for each kind of nodes of a partition.
inline constexpr const char* kPartitionFormat = "%R|%a|%l|%D|%c|%G";
struct PartitionRow {
    std::string name;
    bool up = false;
    std::optional<std::int64_t> limit_seconds{};  // none: no limit
    int nodes = 0;
    int cpus = 0;  // of a node
    int gpus = 0;  // of a node, of every type
};
Result<std::vector<PartitionRow>> parse_partitions(std::string_view text);

// A node, as `scontrol --oneliner show node` tells of it. Of one that Slurm does not know nothing
// is told.
struct NodeRow {
    std::string name;
    std::string state;
    bool down = false;
    friend bool operator==(const NodeRow&, const NodeRow&) = default;
};
Result<std::vector<NodeRow>> parse_nodes(std::string_view text);

// What sbatch's failure means. Unknown: it may have been queued all the same.
enum class Submission { Accepted, Refused, Unknown };
Submission judge_submission(bool timed_out, int exit_code, std::string_view errors);

}  // namespace roll::slurm
