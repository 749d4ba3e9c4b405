// Builds the reply to `report`: the resources that attempts held, and the part of them that was
// wasted. For training jobs, the reply also has the sums `trained` and `elapsed`; their quotient is
// the effective training time ratio (ETTR). The client adds up the rows of all pages
// (cli/commands/report.cpp).
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/split.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

// Maximum number of jobs that a page visits. The number is limited because rolld serves no other
// client during a turn.
constexpr int kReportedMax = 20'000;
constexpr std::array kGroups = {"user", "account", "kind", "week"};

// Resources times the time for which they were held.
struct HeldTime {
    std::int64_t slot_ms = 0;
    std::int64_t gpu_ms = 0;
    void add(const HeldTime& more) {
        slot_ms += more.slot_ms;
        gpu_ms += more.gpu_ms;
    }
    Json json() const { return {{"slot_ms", slot_ms}, {"gpu_ms", gpu_ms}}; }
};

// Causes of waste: the attempt's job failed, was queued again, or was cancelled.
enum class Waste { None, Failed, Requeued, Cancelled };

struct HeldSum {
    std::int64_t jobs = 0;
    HeldTime held{};
    std::map<Waste, HeldTime> wasted{};
    HeldTime elapsed{};  // training jobs: resources times the time from the first start to the end
    HeldTime trained{};  // the part of `elapsed` in which the job trained and kept the result
};

// Held: an attempt held resources. Waited: a training job waited for its next attempt. Trained: the
// part of a training job's attempt that no later attempt had to repeat.
enum class Part { Held, Waited, Trained };

// A part of a job's time, and the resources that the job held or waited for.
struct Span {
    Part part;
    Time from, to;
    std::int64_t slots, gpu_hundredths;
    Waste waste = Waste::None;
    bool trains = false;
    HeldTime held() const {
        const std::int64_t ms = std::max<std::int64_t>(0, (to - from).count());
        return {slots * ms, gpu_hundredths * ms / 100};
    }
};

Waste waste_of(const core::Job& job, const core::EndedAttempt& attempt) {
    // A yielded attempt has saved its work, so nothing is wasted.
    if (attempt.outcome == Outcome::Done || attempt.outcome == Outcome::Yielded) return Waste::None;
    const bool last = &attempt == &job.past.back();
    if (!last || !core::is_over(job.phase)) return Waste::Requeued;
    if (job.phase == core::JobPhase::Failed) return Waste::Failed;
    // The trial was of use: the sweep has used its metrics to choose the trials that continue.
    if (job.stopped_by_halving()) return Waste::None;
    return job.phase == core::JobPhase::Cancelled ? Waste::Cancelled : Waste::None;
}

// Returns the time up to which the training of an attempt was kept. After a failure, this is the
// time of the attempt's last checkpoint, or of its start if it has none. The next attempt continues
// from there, and the later training is lost.
Time trained_until(const core::EndedAttempt& attempt) {
    const bool well = attempt.outcome == Outcome::Done || attempt.outcome == Outcome::Yielded;
    return well ? attempt.ended_at : attempt.checkpoint_at.value_or(attempt.placed_at);
}

void add_ended(const core::Job& job, const core::EndedAttempt& attempt, std::vector<Span>& spans) {
    const spec::Resources& wanted = job.spec.shape(0);
    const auto nodes = static_cast<std::int64_t>(attempt.nodes.size());
    Span span{Part::Held, attempt.placed_at, attempt.ended_at, nodes * wanted.slots_per_node,
              nodes * wanted.gpus_per_node * wanted.gpu_percent};
    span.waste = waste_of(job, attempt);
    span.trains = job.spec.trains();
    spans.push_back(span);
    if (!span.trains || !attempt.started_at) return;
    span.part = Part::Trained;
    span.from = *attempt.started_at;
    span.to = trained_until(attempt);
    spans.push_back(span);
}

std::vector<Span> spans_of(const core::Job& job, Time now) {
    std::vector<Span> spans;
    std::optional<Time> waits_since;
    const auto add_wait = [&](Time until) {
        const spec::Resources& wanted = job.spec.shape(0);
        if (waits_since && job.spec.trains())
            spans.push_back(
                {Part::Waited, *waits_since, until, wanted.slots(), wanted.gpu_hundredths()});
    };
    for (const core::EndedAttempt& attempt : job.past) {
        add_wait(attempt.placed_at);
        add_ended(job, attempt, spans);
        waits_since = attempt.ended_at;
    }
    if (!core::is_over(job.phase)) add_wait(job.attempt ? job.attempt->placed_at : now);
    if (!job.attempt) return spans;
    const spec::Resources& held = job.resources();
    Span span{Part::Held, job.attempt->placed_at, now, held.slots(), held.gpu_hundredths()};
    span.trains = job.spec.trains();
    spans.push_back(span);
    if (!span.trains || !job.attempt->started_at) return spans;
    span.part = Part::Trained;
    span.from = *job.attempt->started_at;
    spans.push_back(span);
    return spans;
}

void add_to(HeldSum& sum, const Span& span) {
    if (span.part == Part::Trained) return sum.trained.add(span.held());
    if (span.part == Part::Waited || span.trains) sum.elapsed.add(span.held());
    if (span.part == Part::Waited) return;
    ++sum.jobs;
    sum.held.add(span.held());
    if (span.waste != Waste::None) sum.wasted[span.waste].add(span.held());
}

// Returns the beginning of the week that contains `time`, Monday 00:00 UTC.
Time week_of(Time time) {
    using namespace std::chrono;
    const auto day = floor<days>(time);
    return day - (weekday(day) - Monday);
}

// The values of a row's groups, such as {"ann", "2026-11-23"}
using Key = std::vector<std::string>;

class Report {
  public:
    Report(std::vector<std::string> by, Time since, Time until, Time now)
        : by_(std::move(by)),
          since_(since),
          until_(until),
          now_(now) {}

    void add(const core::Job& job) {
        const bool weekly = std::ranges::find(by_, "week") != by_.end();
        std::map<Key, HeldSum> own;
        for (Span span : spans_of(job, now_)) {
            span.from = std::max(span.from, since_);
            span.to = std::min(span.to, until_);
            if (span.to <= span.from) continue;
            if (weekly)
                add_weeks(own, job, span);
            else
                add_to(own[key_of(job, span.from)], span);
        }
        for (const auto& [key, part] : own) {
            HeldSum& sum = sums_[key];
            sum.jobs += part.jobs > 0 ? 1 : 0;
            sum.held.add(part.held);
            sum.elapsed.add(part.elapsed);
            sum.trained.add(part.trained);
            for (const auto& [waste, held] : part.wasted) sum.wasted[waste].add(held);
        }
    }

    Json rows() const {
        Json rows = Json::array();
        for (const auto& [key, sum] : sums_) {
            const auto wasted = [&sum = sum](Waste waste) {
                const auto found = sum.wasted.find(waste);
                return (found == sum.wasted.end() ? HeldTime{} : found->second).json();
            };
            Json row = {{"jobs", sum.jobs},
                        {"held", sum.held.json()},
                        {"failed", wasted(Waste::Failed)},
                        {"requeued", wasted(Waste::Requeued)},
                        {"cancelled", wasted(Waste::Cancelled)},
                        {"elapsed", sum.elapsed.json()},
                        {"trained", sum.trained.json()}};
            for (std::size_t i = 0; i < by_.size(); ++i) row[by_[i]] = key[i];
            rows.push_back(std::move(row));
        }
        return rows;
    }

  private:
    Key key_of(const core::Job& job, Time at) const {
        Key key;
        for (const std::string& by : by_) {
            if (by == "user") key.push_back(job.user);
            if (by == "account") key.push_back(job.spec.account);
            if (by == "kind") key.emplace_back(spec::name_of(job.spec.kind));
            if (by == "week") key.push_back(to_iso8601(week_of(at)).substr(0, 10));
        }
        return key;
    }
    void add_weeks(std::map<Key, HeldSum>& sums, const core::Job& job, const Span& whole) const {
        for (Time from = whole.from; from < whole.to;) {
            Span part = whole;
            part.from = from;
            part.to = from = std::min(whole.to, week_of(from) + std::chrono::weeks(1));
            add_to(sums[key_of(job, part.from)], part);
        }
    }

    std::vector<std::string> by_;
    Time since_, until_, now_;
    std::map<Key, HeldSum> sums_{};
};

// Parses the argument `by`. Fails with InvalidArgument if a group does not exist or is repeated.
Result<std::vector<std::string>> read_groups(const std::string& by) {
    std::vector<std::string> groups;
    for (std::string& group : split_at(by.empty() ? "user" : by, ',')) {
        const bool known = std::ranges::find(kGroups, group) != kGroups.end();
        if (!known || std::ranges::find(groups, group) != groups.end())
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("there is no report by {}; allowed: {}, separated by commas, "
                                    "each at most once",
                                    by, fmt::join(kGroups, ", ")));
        groups.push_back(std::move(group));
    }
    return groups;
}

// Returns trained / elapsed of GPUs, or of slots if no GPU was held; null if nothing trained.
Json ratio(const HeldSum& sum) {
    const bool gpus = sum.elapsed.gpu_ms > 0;
    const std::int64_t elapsed = gpus ? sum.elapsed.gpu_ms : sum.elapsed.slot_ms;
    const std::int64_t trained = gpus ? sum.trained.gpu_ms : sum.trained.slot_ms;
    if (elapsed == 0) return nullptr;
    return static_cast<double>(trained) / static_cast<double>(elapsed);
}

}  // namespace

Json ettr(const core::Job& job, Time now) {
    HeldSum sum;
    for (const Span& span : spans_of(job, now)) add_to(sum, span);
    return ratio(sum);
}

Json ettr_of_open(const core::State& state, Time now) {
    HeldSum sum;
    for (const JobId id : state.index.open) {
        const core::Job& job = state.jobs.at(id);
        if (!job.spec.trains()) continue;
        for (const Span& span : spans_of(job, now)) add_to(sum, span);
    }
    return ratio(sum);
}

Result<Json> report(const core::State& state, const protocol::ReportArgs& args, Time now) {
    const Time since{std::chrono::milliseconds(args.since.value_or(0))};
    const Time until = args.until ? Time(std::chrono::milliseconds(*args.until)) : Time::max();
    ROLL_TRY(std::vector<std::string> by, read_groups(args.by));
    Report sums(std::move(by), since, until, now);
    auto at = state.jobs.lower_bound(JobId{args.from});
    for (int looks = 0; at != state.jobs.end() && looks < kReportedMax; ++at, ++looks)
        sums.add(at->second);
    return Json{{"schema", "roll.report_page/1"},
                {"next", at == state.jobs.end() ? Json(nullptr) : Json(at->first.value)},
                {"rows", sums.rows()}};
}

}  // namespace roll::query
