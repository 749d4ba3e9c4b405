// The operations that show jobs, nodes and rolld itself, and `shutdown`. The replies of lists are
// built as JSON (daemon/query), because clients choose their fields.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct JobsArgs {
    static constexpr Operation kOperation{"jobs", Access::Read, Answering::AtOnce, "roll.jobs/1",
                                          "Lists jobs, a page at a time."};
    std::string selector{};
    std::string me{};
    bool all = false;
    std::string state{};
    std::string user{};
    std::string kind{};
    std::uint64_t from = 0;
    std::optional<int> limit{};
    std::vector<std::string> fields{};
    std::optional<std::int64_t> since{};
    bool fold = false;
    bool reverse = false;
};
struct ShowArgs {
    static constexpr Operation kOperation{"show", Access::Read, Answering::AtOnce, "roll.job/1",
                                          "Shows one job with its attempts and checkpoints."};
    Json id{};  // id of the job, or a selector of one job
    std::string me{};
};
struct EventsArgs {
    static constexpr Operation kOperation{"events", Access::Read, Answering::Later, "roll.events/1",
                                          "Lists events, and waits for the next one."};
    std::int64_t since = 0;
    std::optional<std::uint64_t> id{};
    std::optional<int> limit{};
    int wait_ms = 0;
    std::int64_t newest = 0;
};
struct NodesArgs {
    static constexpr Operation kOperation{"nodes", Access::Read, Answering::AtOnce, "roll.nodes/1",
                                          "Lists nodes and sums up their capacity."};
    std::optional<std::uint64_t> limit{};
};
struct TotalsArgs {
    static constexpr Operation kOperation{"totals", Access::Read, Answering::AtOnce,
                                          "roll.totals/1", "Counts jobs, users and nodes."};
};
struct UsageArgs {
    static constexpr Operation kOperation{"usage", Access::Read, Answering::AtOnce, "roll.usage/1",
                                          "Shows a user's use, limits and waiting jobs."};
    std::string user{};
};
struct ReportArgs {
    static constexpr Operation kOperation{"report", Access::Read, Answering::AtOnce,
                                          "roll.report_page/1",
                                          "Sums up used and wasted resources, a page at a time."};
    std::string by{};
    std::optional<std::int64_t> since{}, until{};
    std::uint64_t from = 0;
};
struct VersionArgs {
    static constexpr Operation kOperation{
        "version", Access::Read, Answering::AtOnce, "roll.version/1",
        "Returns rolld's version and the durations of its main loop's iterations."};
};
struct VersionReply {
    std::string version{};
    std::uint64_t incarnation = 0;
    std::int64_t pid = 0;
    std::uint64_t uid = 0;
    std::string started_at{};
    Json turns{}, commits{}, ledger{}, dispatches{};
    std::uint64_t fenced = 0;
};
struct ShutdownArgs {
    static constexpr Operation kOperation{"shutdown", Access::Operate, Answering::AtOnce,
                                          "roll.shutdown/1", "Ends rolld; workers continue."};
};
struct ShutdownReply {
    std::int64_t pid = 0;
};
inline constexpr int kRowsMax = 10'000;  // largest `limit` of jobs and events

// clang-format off
// The names of a job's fields in the reply to `jobs`, in the order in which rolld computes them.
inline constexpr std::array<std::string_view, 31> kJobFields = {
    "id", "name", "kind", "user", "account", "state", "held", "cancelling", "priority", "submitted_at", "started_at", "ended_at",
    "exit_code", "reason", "halved", "labels", "waiting", "output", "attempt", "nodes", "source_job", "export_job", "into", "after",
    "resources", "times", "array", "usage", "progress", "ettr", "starts_at"};
template <class V> void fields(V& v, JobsArgs& a) {
    v("selector", a.selector, "jobs: `7`, `3-9`, `1,4`, `last`, `all`, `@me`, or a name with wildcards (* and ?)");
    v("me", a.me, "the user that @me stands for");
    v("all", a.all, "also list jobs that have ended");
    v("state", a.state, "queued, running, done, failed or cancelled");
    v("user", a.user, "list only this user's jobs");
    v("kind", a.kind, "list only jobs of this kind, for example `train`, or `open` for job groups");
    v("from", a.from, "list only jobs with this number or a higher one");
    v("limit", a.limit, "largest number of jobs in the reply", {.minimum = 1, .maximum = kRowsMax});
    v("fields", a.fields, "fields to return for each job; default: all fields", {.items = kJobFields});
    v("since", a.since, "leave out jobs that ended before this time, in ms since 1970", {.minimum = 0});
    v("fold", a.fold, "list the tasks of an array as one row");
    v("reverse", a.reverse, "list the newest job first");
}
template <class V> void fields(V& v, ShowArgs& a) {
    v.needs("id", a.id, "number of the job, or a selector of one job");
    v("me", a.me, "the user that @me stands for");
}
template <class V> void fields(V& v, EventsArgs& a) {
    v("since", a.since, "list events after the event with this number", {.minimum = 0});
    v("id", a.id, "list only events of this job");
    v("limit", a.limit, "largest number of events in the reply", {.minimum = 1, .maximum = kRowsMax});
    v("wait_ms", a.wait_ms, "longest wait for an event, in ms", {.minimum = 0, .maximum = 60'000});
    v("newest", a.newest, "list only events that are among this many newest events of the ledger", {.minimum = 0});
}
template <class V> void fields(V& v, NodesArgs& a) { v("limit", a.limit, "largest number of nodes in the reply"); }
template <class V> void fields(V&, TotalsArgs&) {}
template <class V> void fields(V& v, UsageArgs& a) { v("user", a.user, "name of the user"); }
template <class V> void fields(V& v, ReportArgs& a) {
    v("by", a.by, "one or more of user, account, kind and week, separated by commas");
    v("since", a.since, "count only usage after this time, in ms since 1970", {.minimum = 0});
    v("until", a.until, "count only usage before this time, in ms since 1970", {.minimum = 0});
    v("from", a.from, "count only jobs with this number or a higher one");
}
template <class V> void fields(V&, VersionArgs&) {}
template <class V> void fields(V& v, VersionReply& r) {
    v("version", r.version, "version of rolld");
    v("incarnation", r.incarnation, "number of times that rolld has started with this ledger");
    v("pid", r.pid, "process id of rolld");
    v("uid", r.uid, "id of the Unix user of rolld");
    v("started_at", r.started_at, "start of rolld");
    v("turns", r.turns, "{count, seconds, p99_ms, longest_ms, recent_longest_ms} of rolld's main loop; recent: the last 100 iterations");
    v("commits", r.commits, "{count, seconds, p99_ms, longest_ms, recent_longest_ms} of the writes to the ledger");
    v("ledger", r.ledger, "{bytes, wal_bytes, free_bytes}: sizes of the ledger and of its WAL, and the free space of their volume");
    v("dispatches", r.dispatches,
      "{count, seconds, buckets: [{le, count}]}: histogram of the time from when a job could run until rolld sent its start order");
    v("fenced", r.fenced, "number of orders to a worker to kill an attempt that is not its job's current attempt");
}
template <class V> void fields(V&, ShutdownArgs&) {}
template <class V> void fields(V& v, ShutdownReply& r) { v("pid", r.pid, "process id of rolld"); }
// clang-format on

}  // namespace roll::protocol
