// Builds the reply to `jobs`, a page of summaries. A page visits a limited number of jobs, because
// rolld serves no other client during a turn. To get the next page, the client sends `next` as
// `from`.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "common/json_size.hpp"
#include "common/spec/schema/array.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

// maximum number of jobs per reply; this many jobs take about 9 MB
constexpr int kPageMax = protocol::kRowsMax;
// Maximum number of jobs that a page visits if the request folds arrays, reverses the order, or
// selects jobs by time or kind. Such a page may visit many jobs for each row. If the maximum is
// reached within an array, the page still visits the rest of this array.
constexpr std::size_t kVisitsMax = 20'000;
constexpr std::size_t kIndicesMax = 200;  // maximum number of bytes of a folded row's indices
constexpr std::array<std::string_view, 7> kKinds = {"train", "resume",  "tokenize", "convert",
                                                    "merge", "command", "open"};

// Limits a page to the maximum size of a message.
class Page {
  public:
    // Returns whether the page has room for one more row, and counts the row. The first row always
    // has room.
    bool takes(const Json& row) {
        constexpr std::size_t kBytesMax = 8u << 20;
        const std::size_t more = most_bytes(row);
        if (bytes_ > 0 && bytes_ + more > kBytesMax) return false;
        bytes_ += more;
        return true;
    }

  private:
    std::size_t bytes_ = 0;
};

// The arguments that select the jobs of a page.
struct Asked {
    const protocol::JobsArgs& args;
    bool all = false;
    int limit = 0;
    std::optional<Time> since;  // jobs that ended before this time are left out

    // Returns whether the page lists only jobs that have not ended.
    bool live() const {
        return args.state == "running" || args.state == "queued" || (args.state.empty() && !all);
    }
    bool wants(const core::Job& job) const {
        if (!args.state.empty() &&
            args.state != core::kJobPhases.at(static_cast<std::size_t>(job.phase)))
            return false;
        if (args.state.empty() && !all && core::is_over(job.phase)) return false;
        if (since && job.ended_at && *job.ended_at < *since) return false;
        return is_of_kind(job) && (args.user.empty() || job.user == args.user);
    }
    bool is_of_kind(const core::Job& job) const {
        return args.kind.empty() || args.kind == kind_name(job);
    }
    // Returns whether a folded row counts the job. The row of an array that has not ended also
    // counts the tasks that have ended.
    bool counts(const core::Job& job) const {
        return wants(job) || (args.state.empty() && !all && is_of_kind(job) &&
                              (args.user.empty() || job.user == args.user));
    }
};

Result<Asked> read(const protocol::JobsArgs& args) {
    Asked asked{.args = args,
                .all = args.all || !args.selector.empty(),
                .limit = std::clamp(args.limit.value_or(kPageMax), 1, kPageMax),
                .since = std::nullopt};
    if (args.since) asked.since = Time(std::chrono::milliseconds(*args.since));
    if (!args.state.empty() &&
        std::ranges::find(core::kJobPhases, args.state) == core::kJobPhases.end()) {
        return fail(ErrorCode::InvalidArgument, "there is no state " + args.state,
                    "use queued, running, done, failed or cancelled");
    }
    if (!args.kind.empty() && std::ranges::find(kKinds, args.kind) == kKinds.end()) {
        return fail(ErrorCode::InvalidArgument, "there is no kind " + args.kind,
                    fmt::format("use {}", fmt::join(kKinds, ", ")));
    }
    return asked;
}

// The jobs from which a page is taken. Two functions search them: one returns the first job with at
// least the given id, the other the last job with at most the given id. Both return nullopt if
// there is no such job.
struct Source {
    std::function<std::optional<JobId>(JobId)> at_or_after;
    std::function<std::optional<JobId>(JobId)> at_or_before;
};

// Returns a source of the jobs in `ids`, a sorted container that must outlive the source. `id_of`
// returns the id of an element.
template <class Ids, class IdOf>
Source source_of(const Ids& ids, IdOf id_of, auto lower_bound) {
    return {[&ids, id_of, lower_bound](JobId id) -> std::optional<JobId> {
                const auto at = lower_bound(id);
                return at == ids.end() ? std::nullopt : std::optional(id_of(*at));
            },
            [&ids, id_of, lower_bound](JobId id) -> std::optional<JobId> {
                auto at = lower_bound(id);
                if (at != ids.end() && id_of(*at) == id) return id;
                return at == ids.begin() ? std::nullopt : std::optional(id_of(*--at));
            }};
}

Source source_of(const std::set<JobId>& ids) {
    return source_of(
        ids, [](JobId id) { return id; }, [&ids](JobId id) { return ids.lower_bound(id); });
}

Source source_of(const std::vector<JobId>& ids) {
    return source_of(
        ids, [](JobId id) { return id; },
        [&ids](JobId id) { return std::ranges::lower_bound(ids, id); });
}

Source source_of(const std::map<JobId, core::Job>& jobs) {
    return source_of(
        jobs, [](const auto& one) { return one.first; },
        [&jobs](JobId id) { return jobs.lower_bound(id); });
}

// Returns ascending numbers as ranges: "1-5,9".
std::string ranges_text(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t from = 0, to = 0; from < numbers.size(); from = to) {
        while (to < numbers.size() && numbers[to] == numbers[from] + static_cast<int>(to - from))
            ++to;
        text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[from]);
        if (to - from > 1) text += fmt::format("-{}", numbers[to - 1]);
        if (text.size() > kIndicesMax) return text.substr(0, kIndicesMax) + "...";
    }
    return text;
}

// The tasks of one array that a folded row stands for.
struct Fold {
    JobId first{}, last{};  // the first and the last task
    JobId shown{};          // the task whose summary the row shows
    std::array<std::int64_t, core::kJobPhases.size()> states{};
    std::size_t tasks = 0;
    std::vector<int> indices{};  // array indices of the tasks that were visited
    std::string all_indices{};   // array indices of all tasks, if the tasks were not visited

    void add(JobId id, const core::Job& job, const core::State& state) {
        // The row shows a running task if there is one, else the first queued task, else the last
        // ended task. The row shows a trial that halving stopped only if halving stopped all tasks.
        const auto rank = [](const core::Job& task) {
            if (task.stopped_by_halving()) return 3;
            return !core::is_over(task.phase) ? (task.attempt ? 0 : 1) : 2;
        };
        if (indices.empty()) first = shown = id;
        const int old = rank(state.jobs.at(shown)), now = rank(job);
        if (now < old || (now >= 2 && old == now)) shown = id;
        last = id;
        ++states.at(static_cast<std::size_t>(job.phase));
        indices.push_back(job.spec.array->index);
        ++tasks;
    }
    // Counts all tasks of an array without visiting each of them. Requires that no task has ended
    // or been removed.
    void add_all(JobId array, const core::Job& job, const core::State& state, int count) {
        const auto found = state.index.array_running.find(array);
        const int running = found == state.index.array_running.end() ? 0 : found->second;
        first = array;
        last = JobId{array.value + static_cast<std::uint64_t>(count) - 1};
        shown = running > 0 ? *state.index.running.lower_bound(array) : array;
        states.at(static_cast<std::size_t>(core::JobPhase::Running)) = running;
        states.at(static_cast<std::size_t>(core::JobPhase::Queued)) = count - running;
        tasks = static_cast<std::size_t>(count);
        all_indices = job.spec.array->indices;
    }
    Json json() const {
        Json counts = Json::object();
        for (std::size_t phase = 0; phase < states.size(); ++phase)
            if (states.at(phase) > 0) counts[core::kJobPhases.at(phase)] = states.at(phase);
        return {{"first", first.value},
                {"last", last.value},
                {"tasks", tasks},
                {"indices", indices.empty() ? all_indices : ranges_text(indices)},
                {"states", std::move(counts)}};
    }
};

class Lister {
  public:
    Lister(const core::State& state, const Asked& asked, Rows& rows, Source source)
        : state_(state),
          asked_(asked),
          rows_(rows),
          source_(std::move(source)),
          all_(source_of(state.jobs)) {}

    // Fills the page. Returns the job with which the next page begins; nullopt if there is none.
    std::optional<JobId> fill(Json& list) {
        const bool limited =
            asked_.args.fold || asked_.args.reverse || asked_.since || !asked_.args.kind.empty();
        auto at = asked_.args.reverse && asked_.args.from == 0 ? before(JobId{UINT64_MAX})
                                                               : next(JobId{asked_.args.from});
        while (at) {
            const core::Job& job = state_.jobs.at(*at);
            JobId end = *at;
            ++looks_;
            if (asked_.wants(job)) {
                if (std::ssize(list) >= asked_.limit) return at;
                Json row = row_of(*at, job, end);
                if (!page_.takes(row)) return at;
                list.push_back(std::move(row));
            }
            at = asked_.args.reverse ? before(JobId{end.value - 1}) : next(JobId{end.value + 1});
            if (limited && looks_ >= kVisitsMax) return at;
        }
        return std::nullopt;
    }

  private:
    std::optional<JobId> next(JobId id) const {
        return asked_.args.reverse ? before(id) : source_.at_or_after(id);
    }
    std::optional<JobId> before(JobId id) const {
        return id.value == 0 ? std::nullopt : source_.at_or_before(id);
    }

    // Returns the row of a job, or of the array that the job is in. Sets `end` to the last job that
    // the row stands for, in the direction of the page.
    Json row_of(JobId id, const core::Job& job, JobId& end) {
        if (!asked_.args.fold || !job.spec.array) return rows_.row(id, job);
        const Fold fold = fold_of(job.array);
        end = asked_.args.reverse ? fold.first : fold.last;
        if (fold.tasks == 1) return rows_.row(id, job);
        Json row = rows_.row(fold.shown, state_.jobs.at(fold.shown));
        row["id"] = fold.first.value;
        row["fold"] = fold.json();
        return row;
    }

    // Returns the folded row of an array. The tasks of an array have consecutive ids, because one
    // submission made them.
    Fold fold_of(JobId array) {
        Fold fold;
        const bool whole = asked_.args.selector.empty() && asked_.args.state.empty() && !asked_.all;
        const auto any = static_cast<std::size_t>(spec::After::Condition::Any);
        const core::Tasks& tasks = state_.index.arrays.at(array);
        const auto first = state_.jobs.find(array);
        if (whole && first != state_.jobs.end() && tasks.conditions.at(any).left == tasks.count) {
            const auto indices = spec::array_indices(first->second.spec.array->indices);
            if (indices && std::ssize(*indices) == tasks.count) {
                fold.add_all(array, first->second, state_, tasks.count);
                return fold;
            }
        }
        const Source& source = whole ? all_ : source_;
        for (auto id = source.at_or_after(array); id;
             id = source.at_or_after(JobId{id->value + 1})) {
            const core::Job& job = state_.jobs.at(*id);
            if (job.array != array) break;
            ++looks_;
            if (asked_.counts(job)) fold.add(*id, job, state_);
        }
        return fold;
    }

    const core::State& state_;
    const Asked& asked_;
    Rows& rows_;
    Source source_;
    Source all_;
    Page page_{};
    std::size_t looks_ = 0;
};

}  // namespace

Result<Json> jobs(const core::State& state, const protocol::JobsArgs& args, const Hearsay& hearsay,
                  Time now) {
    ROLL_TRY(const Asked asked, read(args));
    std::vector<JobId> selected;
    if (!asked.args.selector.empty() && asked.args.selector != "all") {
        ROLL_TRY(selected, select(state, asked.args.selector, asked.args.me));
    }
    // If the page lists only jobs that have not ended, visit only these jobs. There are few of
    // them.
    const core::Index& index = state.index;
    const bool chosen = !asked.args.selector.empty() && asked.args.selector != "all";
    const bool live = asked.args.selector.empty() && asked.live();
    Source source = chosen                          ? source_of(selected)
                    : !live                         ? source_of(state.jobs)
                    : asked.args.state == "running" ? source_of(index.running)
                                                    : source_of(index.open);
    Rows rows(state, hearsay, now, asked.args.fields);
    Json list = Json::array();
    const auto next = Lister(state, asked, rows, std::move(source)).fill(list);
    Json reply{{"schema", "roll.jobs/1"},
               {"next", next ? Json(next->value) : Json(nullptr)},
               {"running", index.running.size()},
               {"queued", index.open.size() - index.running.size()}};
    reply["jobs"] = std::move(list);  // an initializer list would copy `list`
    return reply;
}

}  // namespace roll::query
