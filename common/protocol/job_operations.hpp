// The operations that change jobs: their arguments and replies.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

using JobNumbers = std::vector<std::uint64_t>;

// The jobs that an operation changes.
struct Selection {
    std::string selector{};
    std::string me{};
    std::optional<int> wait_ms{};
};
struct CancelArgs : Selection {
    static constexpr Operation kOperation{"cancel", Access::Change, Answering::Later,
                                          "roll.cancel/1", "Cancels queued and running jobs."};
    std::string reason{};
};
struct CloseArgs : Selection {
    static constexpr Operation kOperation{"close", Access::Change, Answering::Later,
                                          "roll.closed/1", "Closes job groups to new jobs."};
};
struct HoldArgs : Selection {
    static constexpr Operation kOperation{"hold", Access::Change, Answering::Later, "roll.held/1",
                                          "Keeps queued jobs from starting."};
};
struct ReleaseArgs : Selection {
    static constexpr Operation kOperation{"release", Access::Change, Answering::Later,
                                          "roll.held/1", "Lets held jobs start."};
};
struct RequeueArgs : Selection {
    static constexpr Operation kOperation{"requeue", Access::Change, Answering::Later,
                                          "roll.requeued/1",
                                          "Stops running jobs and queues them again."};
};
struct UpdateArgs : Selection {
    static constexpr Operation kOperation{"update", Access::Change, Answering::Later,
                                          "roll.updated/1",
                                          "Changes the priority or the begin time of jobs."};
    std::optional<int> priority{};
    bool first = false;
    std::optional<std::int64_t> begin{};
};
struct CancelReply {
    JobNumbers cancelled{};
    JobNumbers over{};
};
struct ChangedReply {  // the reply of close, hold, release, requeue and update
    JobNumbers jobs{};
    JobNumbers over{};
};
struct ProgressArgs {
    static constexpr Operation kOperation{"progress", Access::Change, Answering::Later,
                                          "roll.progress/1",
                                          "Waits until a change of many jobs has ended."};
    std::uint64_t ticket = 0;
    int wait_ms = 0;
};
struct ProgressReply {
    std::uint64_t ticket = 0;
    std::uint64_t done = 0;
    std::uint64_t jobs = 0;
};
struct CheckpointArgs {
    static constexpr Operation kOperation{"checkpoint", Access::Change, Answering::AfterTurn,
                                          "roll.asked/1", "Asks a running job for a checkpoint."};
    std::uint64_t id = 0;
};
struct CheckpointReply {
    std::uint64_t id = 0;
    Json token{};  // token of the running attempt; null: the job is not running
    std::uint64_t asked = 0;
};

struct TellArgs {
    static constexpr Operation kOperation{"tell", Access::Change, Answering::AfterTurn,
                                          "roll.told/1",
                                          "Passes a request on to a running training."};
    std::uint64_t id = 0;
    std::string what{};  // a name of kRequestKinds
    std::int64_t value = 0;
};
struct TellReply {
    std::uint64_t id = 0;
    std::string token{};  // token of the running attempt
    std::uint64_t number = 0;
};

// clang-format off
template <class V> void selection_fields(V& v, Selection& a) {
    v.needs("selector", a.selector, "jobs: `7`, `3-9`, `1,4`, `last`, `all`, `@me`, or a name with wildcards (* and ?)");
    v("me", a.me, "the user that @me stands for");
    v("wait_ms", a.wait_ms, "reply with the progress after this many ms; default: wait for the end of the change", {.minimum = 0});
}
template <class V> void fields(V& v, CancelArgs& a) { selection_fields(v, a); v("reason", a.reason, "reason, shown with the job"); }
template <class V, std::derived_from<Selection> Args> void fields(V& v, Args& a) { selection_fields(v, a); }
template <class V> void fields(V& v, UpdateArgs& a) {
    selection_fields(v, a);
    v("priority", a.priority, "new priority");
    v("first", a.first, "set a priority above that of all other queued jobs");
    v("begin", a.begin, "earliest start, in ms since 1970", {.minimum = 0});
}
template <class V> void fields(V& v, CancelReply& r) {
    v("cancelled", r.cancelled, "cancelled jobs");
    v("over", r.over, "selected jobs that had already ended");
}
template <class V> void fields(V& v, ChangedReply& r) {
    v("jobs", r.jobs, "changed jobs");
    v("over", r.over, "selected jobs that had already ended");
}
template <class V> void fields(V& v, ProgressArgs& a) {
    v.needs("ticket", a.ticket, "`ticket` of the reply that reported the progress");
    v("wait_ms", a.wait_ms, "reply with the progress if the change takes longer than this many ms", {.minimum = 0});
}
template <class V> void fields(V& v, ProgressReply& r) {
    v("ticket", r.ticket, "id of the change"); v("done", r.done, "jobs changed so far"); v("jobs", r.jobs, "all jobs");
}
template <class V> void fields(V& v, CheckpointArgs& a) { v.needs("id", a.id, "number of the job"); }
template <class V> void fields(V& v, CheckpointReply& r) {
    v("id", r.id, "number of the job");
    v("token", r.token, "token of the running attempt; null if the job does not run");
    v("asked", r.asked, "number of the request within the attempt");
}
template <class V> void fields(V& v, TellArgs& a) {
    v.needs("id", a.id, "number of the job");
    v.needs("what", a.what, "evaluate, stop-at-epoch, stop-at-step, log-every or profile");
    v("value", a.value, "a step for stop-at-step; a number of steps for log-every and profile");
}
template <class V> void fields(V& v, TellReply& r) {
    v("id", r.id, "number of the job");
    v("token", r.token, "token of the attempt that gets the request");
    v("number", r.number, "number of the request within the attempt");
}
// clang-format on

}  // namespace roll::protocol
