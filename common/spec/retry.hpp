// What follows an attempt that did not end well.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roll::spec {

// What an exit code of the program means besides 0: the job fails at once, the attempt failed
// through no fault of the program's, or that and the job shuns its node.
enum class OnExit { Stop, Retry, AvoidNode };

// What an exit code, or a line of the log, means.
struct Meaning {
    std::optional<OnExit> then{};
    std::string label{};  // that the job gets
    friend bool operator==(const Meaning&, const Meaning&) = default;
};
struct OnLog {
    std::string match;  // regular expression (common/pattern.hpp)
    Meaning meaning{};
    friend bool operator==(const OnLog&, const OnLog&) = default;
};

// How often an attempt that did not end well is followed by another, each class apart. `infra`: a
// lost worker, a killed rank, a full disk; `app`: the program's own failure; `timeout`: its time
// limit; `preempted`: a job of higher priority. An invalid input is never tried again.
struct Retry {
    int infra = 10;
    int app = 1;
    int timeout = 0;
    int preempted = 1000;
    int no_progress =
        3;  // bad ends in a row without a newer checkpoint, of a job that trains; 0: any
    std::chrono::seconds backoff{1};  // after the first failure; doubled after each other
    std::chrono::seconds backoff_max{256};
    std::map<int, Meaning> on_exit{};
    std::vector<OnLog> on_log{};
    friend bool operator==(const Retry&, const Retry&) = default;
};

const char* name_of(OnExit what);  // "stop", "retry", "avoid_node"
std::optional<OnExit> parse_on_exit(std::string_view name);

}  // namespace roll::spec
