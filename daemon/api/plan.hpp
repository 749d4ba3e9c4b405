// The plan that a handler returns for a request. The server (daemon/server) executes the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "daemon/core/core.hpp"
#include "daemon/files/request.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/gateway/terminals.hpp"

namespace roll::api {

// Answers at once.
struct ReplyNow {
    Json json;
};
// Answers at once and ends rolld.
struct ReplyAndStop {
    Json json;
};
// Adds the inputs to this turn, and answers after the turn. If an input is refused, its error is
// the answer. `changed` says whether the inputs produced events.
struct RunTurn {
    std::vector<core::Input> inputs;
    std::function<Json(const core::State& state, bool changed)> reply;
};
// Changes jobs in the given order, some of the jobs in each turn. Only `user` may wait for the end
// of the change.
struct ChangeJobs {
    std::string user{};
    std::vector<JobId> jobs{};
    std::function<void(JobId, std::vector<core::Input>&)> add_inputs{};  // appends a job's inputs
    Json answer{};  // the final answer, when all is done
    std::optional<int> wait_ms{};
};
// Waits for the end of an earlier ChangeJobs.
struct AwaitChange {
    std::string user{};
    std::uint64_t ticket = 0;
    int wait_ms = 0;
};
// Waits for events after `since`. If `job` is set, waits only for events of that job.
struct AwaitEvents {
    std::int64_t since = 0;
    int limit = 0;
    std::optional<JobId> job{};
    int wait_ms = 0;
};
// Reads a file on another thread, and then answers.
struct ReadJobFile {
    files::JobFileRequest request;
};

// Opens a terminal in a running job.
struct OpenTerminal {
    gateway::Terminals::Opening opening{};
    std::string node{};  // name of the node
};
struct WriteTerminal {
    std::string user{};
    protocol::ShellWriteArgs args{};
};
struct ReadTerminal {
    std::string user{};
    protocol::ShellReadArgs args{};
};

using Plan = std::variant<ReplyNow, ReplyAndStop, RunTurn, ChangeJobs, AwaitChange, AwaitEvents,
                          OpenTerminal, WriteTerminal, ReadTerminal, ReadJobFile>;

}  // namespace roll::api
