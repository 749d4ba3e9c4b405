// The retry policy of a job.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roll::spec {

// How an attempt with a nonzero exit code is treated. Stop: the job fails at once. Retry: the end
// counts as an infra failure, not as a failure of the program. AvoidNode: like Retry, but the job
// also avoids the node.
enum class OnExit { Stop, Retry, AvoidNode };

// The user's rule for an exit code or for a line of the log.
struct Meaning {
    std::optional<OnExit> then{};
    std::string label{};  // label to give to the job
    friend bool operator==(const Meaning&, const Meaning&) = default;
};
struct OnLog {
    std::string match;  // regular expression (common/pattern.hpp) that a line of the log must match
    Meaning meaning{};
    friend bool operator==(const OnLog&, const OnLog&) = default;
};

// Maximum number of retries per class of failure. `infra`: a worker was lost, or a rank was killed.
// `app`: the program itself failed. `timeout`: the time limit was reached. `preempted`: a job of
// higher priority took the resources. An attempt with an invalid input, or with an output that
// cannot be written, is never retried.
struct Retry {
    int infra = 10;
    int app = 1;
    int timeout = 0;
    int preempted = 1000;
    // Training: maximum number of failures in a row without a new checkpoint; 0: no limit.
    int no_progress = 3;
    // Time to wait after the first failure. Each further failure doubles the time.
    std::chrono::seconds backoff{1};
    std::chrono::seconds backoff_max{256};
    std::map<int, Meaning> on_exit{};
    std::vector<OnLog> on_log{};
    friend bool operator==(const Retry&, const Retry&) = default;
};

const char* name_of(OnExit what);  // returns "stop", "retry" or "avoid_node"
std::optional<OnExit> parse_on_exit(std::string_view name);

}  // namespace roll::spec
