// Why a queued job waits, and a running one for a silent node: each rule that holds it, and what
// would let it start.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/check.hpp"
#include "daemon/core/allocations.hpp"
#include "daemon/core/dependency.hpp"
#include "daemon/core/limits.hpp"
#include "daemon/core/room.hpp"
#include "daemon/core/rules/rules.hpp"
#include "daemon/core/shunned.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

std::string need_text(const spec::Resources& wanted) {
    std::string text = fmt::format("{} node{} with {} slots and {} GPUs each", wanted.workers(),
                                   wanted.workers() == 1 ? "" : "s", wanted.slots_per_node,
                                   spec::gpus_text(wanted.gpus_per_node * wanted.gpu_percent));
    if (wanted.segment > 1) text += fmt::format(", {} of them in a segment", wanted.segment);
    return text;
}

// Whether enough of the workers that take jobs have that, be they busy. Only for nodes that lie
// anywhere.
bool has_enough(const core::State& state, const spec::Resources& wanted, Time now) {
    int left = wanted.workers();
    for (const auto& [id, worker] : state.workers) {
        const bool fits =
            worker.slots >= wanted.slots_per_node && worker.gpus >= wanted.gpus_per_node;
        if (!fits || !core::takes_work(state, worker)) continue;
        if (!core::has_time_for(core::leaves_at(state, worker), wanted, now)) continue;
        if (--left == 0) return wanted.segment <= 1;
    }
    return false;
}

class Finder {
  public:
    Finder(const core::State& state, JobId id, Time now)
        : state_(state),
          id_(id),
          job_(state.jobs.at(id)),
          now_(now) {}

    std::vector<Hold> find() {
        if (job_.spec.open) {
            open();
            return std::move(all_);
        }
        if (state_.stopped)
            add("stopped", "no job is started: " + *state_.stopped, "rollctl undrain --all");
        hold();
        dependencies();
        times();
        secrets();
        limits();
        if (all_.empty()) room();
        for (Hold& hold : all_) {
            if (hold.rule == "room" || hold.rule == "segment" || hold.rule == "silent")
                hold.nodes =
                    reasons_of_nodes(state_, job_, shape(core::known_room(state_, now_)), now_);
        }
        return std::move(all_);
    }

    std::optional<Hold> never() {
        const core::Room known = core::known_room(state_, now_);
        for (int i = 0; i < job_.spec.shapes(); ++i) {
            const spec::Resources& wanted = job_.spec.shape(i);
            if (!core::find_places(wanted, known).empty()) return std::nullopt;
            const auto supply = supply_hold(state_, wanted, now_);
            if (supply && supply->comes) return std::nullopt;
        }
        unfit(job_.spec.resources);
        return std::move(all_.front());
    }

  private:
    void add(const char* rule, std::string why, std::string remedy) {
        ROLL_CHECK(std::ranges::count(kHoldRules, std::string_view(rule)) == 1);
        all_.push_back({rule, std::move(why), std::move(remedy)});
    }

    // It never runs; what it waits for is its end.
    void open() {
        const auto inside = state_.index.inside.find(id_);
        const auto left = inside == state_.index.inside.end() ? 0 : inside->second.size();
        if (job_.closed)
            return add("open", fmt::format("closed: {} of its jobs are not over", left),
                       "it ends by itself when they are");
        add("open", fmt::format("open: jobs are put into it, {} of them are not over", left),
            fmt::format("rollctl submit --into {} puts one into it; after rollctl close {} it ends "
                        "with the last of them",
                        id_.value, id_.value));
    }

    void hold() {
        if (job_.held) add("hold", "held", fmt::format("rollctl release {}", id_.value));
    }

    void dependencies() {
        for (const spec::After& after : job_.spec.after) {
            if (!core::may_change(state_, after, state_.index)) continue;
            if (after.array) {
                array(after);
                continue;
            }
            add("after", "waits for " + condition_text(after),
                fmt::format("it starts by itself when job {} has ended so; rollctl show {}",
                            after.job.value, after.job.value));
        }
    }

    // Its jobs come in a row.
    void array(const spec::After& after) {
        const int count = state_.index.arrays.at(after.job).count;
        const auto last = after.job.value + static_cast<std::uint64_t>(count) - 1;
        add("after",
            fmt::format("waits for {}: {} of the {} jobs of that array are left",
                        condition_text(after), core::all_of(state_.index, after)->left, count),
            fmt::format("it starts by itself when all of them have ended so; rollctl jobs {}-{}",
                        after.job.value, last));
    }

    void times() {
        if (!job_.spec.cron.empty())
            return add("cron",
                       fmt::format("queues a job at {} ({})", to_iso8601(core::due_at(job_)),
                                   job_.spec.cron),
                       fmt::format("rollctl update {} begin=now queues one now", id_.value));
        if (job_.due) return;
        const std::string begin = job_.spec.begin ? to_iso8601(*job_.spec.begin) : "";
        if (job_.not_before < core::due_at(job_))
            add("begin", "begins at " + begin,
                fmt::format("rollctl update {} begin=now", id_.value));
        else
            add("retry", "backs off until " + to_iso8601(job_.not_before) + last_end(),
                fmt::format("it starts by itself then, or: rollctl update {} begin=now",
                            id_.value));
    }

    // ", after attempt 2: its worker was lost"; empty: nothing is known of one.
    std::string last_end() const {
        if (job_.past.empty()) return {};
        const core::EndedAttempt& last = job_.past.back();
        return fmt::format(
            ", after attempt {}: {}", last.token.attempt,
            last.reason.empty() ? fmt::format("exit code {}", last.exit_code) : last.reason);
    }

    void secrets() {
        const auto name = core::missing_secret(state_, job_.user, job_.spec);
        if (!name) return;
        add("secret", fmt::format("{} has no secret {} any more", job_.user, *name),
            fmt::format("rollctl secret set {} < FILE, as {}", *name, job_.user));
    }

    void limits() {
        const core::Limits limits(state_, now_);
        if (!core::allowed_shapes(job_, limits, now_).empty()) return;
        const auto excess = excess_of(limits);
        if (!excess) return;
        std::string remedy = excess->remedy;
        if (remedy.empty())
            remedy = fmt::format("it starts by itself when {}", excess->rule == "array"
                                                                    ? "one of them ends"
                                                                    : "enough of them have ended");
        if (!excess->setting.empty())
            remedy += fmt::format(", or have {} of rolld.yaml raised and send rolld a SIGHUP",
                                  excess->setting);
        add(excess->rule.c_str(), excess->why, std::move(remedy));
    }

    // Of the first of its shapes that it may have once others have ended; if there is none, of its
    // first.
    std::optional<core::Excess> excess_of(const core::Limits& limits) const {
        std::optional<core::Excess> found;
        for (int i = 0; i < job_.spec.shapes(); ++i) {
            auto excess = limits.excess(job_, job_.spec.shape(i));
            if (excess && (!found || excess->remedy.empty())) found = std::move(excess);
            if (found && found->remedy.empty()) break;
        }
        return found;
    }

    // The first of its shapes that it may have and the workers could hold; else what it asks for.
    const spec::Resources& shape(const core::Room& room) const {
        for (const int i : core::allowed_shapes(job_, core::Limits(state_, now_), now_)) {
            if (!core::find_places(job_.spec.shape(i), room).empty()) return job_.spec.shape(i);
        }
        return job_.spec.resources;
    }

    std::set<WorkerId> shunned_workers() const {
        if (job_.avoid.empty()) return {};
        const auto shapes = core::allowed_shapes(job_, core::Limits(state_, now_), now_);
        return core::shunned_workers(state_, job_, core::all_room(state_, now_), shapes);
    }

    void room() {
        const core::Room known = core::known_room(state_, now_);
        const spec::Resources& wanted = shape(known);
        if (state_.adopting) {
            return add("adopting", "rolld took over from another one, and adopts what runs first",
                       "it starts by itself after 35 beats, and what rolld's "
                       "--volume-patience adds");
        }
        if (core::find_places(wanted, known).empty()) return unfit(wanted);
        const std::string need = need_text(wanted);
        if (core::find_places(wanted, core::all_room(state_, now_)).empty()) {
            return add("silent", "workers that it needs are not heard just now",
                       "it starts by itself when they are; rollctl nodes shows since when");
        }
        const auto shunned = shunned_workers();
        const core::Room free = core::free_room(state_, now_);
        const bool has_room =
            !core::find_places(wanted, shunned.empty() ? free : core::without(free, shunned))
                 .empty();
        if (has_room && reservation()) return;
        const std::string others = shunned.empty() ? ""
                                                   : fmt::format(", not on {}, where it failed",
                                                                 fmt::join(job_.avoid, ", "));
        const std::string order = on_order(state_, wanted);
        add("room", "waits for free slots: it needs " + need + others,
            fmt::format("it starts when jobs before it end{}; rollctl update {} priority=N moves "
                        "it forward, rollctl jobs shows the others",
                        order.empty() ? "" : " or Slurm grants " + order + " (rollctl alloc list)",
                        id_.value));
    }

    // There is room, but it is kept for the first job that must wait.
    bool reservation() {
        const auto first = core::promised(state_, now_);
        if (!first || first->job == id_) return false;
        const int priority = state_.jobs.at(first->job).spec.priority + 1;
        const std::string until =
            first->at ? fmt::format("which starts at {} at the latest", to_iso8601(*first->at))
                      : "for which no time can be told: attempts without resources.time are in its "
                        "way";
        add("reservation",
            fmt::format("the room that is free is kept for job {}, {}", first->job.value, until),
            fmt::format("rollctl update {} priority={} puts it before that one{}", id_.value,
                        priority,
                        first->at ? "; with a resources.time that ends 30 s before that, it "
                                    "starts at once"
                                  : ""));
        return true;
    }

    // The workers could not hold it though nothing ran.
    void unfit(const spec::Resources& wanted) {
        if (const auto supply = supply_hold(state_, wanted, now_))
            return add("allocation", supply->why, supply->remedy);
        if (state_.workers.empty())
            return add("workers", "no worker is connected", "rollctl up, or start a roll-worker");
        too_large(wanted, need_text(wanted));
    }

    void too_large(const spec::Resources& wanted, const std::string& need) {
        constexpr std::size_t kNamesMax = 8;
        int fitting = 0;
        std::vector<std::string> closed;  // drained, or excluded for faults
        for (const auto& [id, worker] : state_.workers) {
            const bool fits =
                worker.slots >= wanted.slots_per_node && worker.gpus >= wanted.gpus_per_node;
            if (!fits) continue;
            if (worker.draining || core::is_excluded(state_, worker))
                closed.push_back(worker.node);
            else
                ++fitting;
        }
        if (wanted.segment > 1 && fitting >= wanted.workers()) {
            return add(
                "segment",
                fmt::format("it needs {}, and no segments have so many that are connected", need),
                "connect roll-worker --segment NAME there, or submit it again with a "
                "smaller resources.segment");
        }
        if (!closed.empty() && fitting + std::ssize(closed) >= wanted.workers()) {
            const std::string last = closed.back();
            const auto count = closed.size();
            closed.resize(std::min(count, kNamesMax));
            return add("room",
                       fmt::format("it needs {}; {} of the {} workers that have that are drained: "
                                   "{}{}",
                                   need, count, fitting + count, fmt::join(closed, ", "),
                                   count > kNamesMax ? ", ..." : ""),
                       "rollctl undrain " + last);
        }
        add("room",
            fmt::format("no set of connected workers is that large: it needs {}, {} of {} workers "
                        "have that",
                        need, fitting, state_.workers.size()),
            "connect more workers or larger ones, or submit it again with less in resources");
    }

    const core::State& state_;
    JobId id_;
    const core::Job& job_;
    Time now_;
    std::vector<Hold> all_;
};

}  // namespace

// A job that runs where nobody is heard. Its processes may run on until their bound has run out.
static std::vector<Hold> unheard(const core::State& state, const core::Job& job) {
    std::vector<Hold> all;
    if (!job.attempt) return all;
    for (const core::Place& place : job.attempt->places) {
        const auto worker = state.workers.find(place.worker);
        if (place.ended || worker == state.workers.end() || !worker->second.quiet) continue;
        const std::string& node = worker->second.node;
        all.push_back({"silent",
                       fmt::format("{} is not heard: its processes of this job may run until it "
                                   "has been silent for 35 beats of rolld",
                                   node),
                       fmt::format("the job goes on if {0} is heard before, else it starts again; "
                                   "at once if roll-worker starts again on {0}",
                                   node)});
    }
    return all;
}

std::vector<Hold> holds(const core::State& state, JobId id, Time now) {
    const core::Job& job = state.jobs.at(id);
    if (job.phase == core::JobPhase::Running) return unheard(state, job);
    if (job.phase != core::JobPhase::Queued) return {};
    return Finder(state, id, now).find();
}

std::optional<Hold> never(const core::State& state, JobId id, Time now) {
    const core::Job& job = state.jobs.at(id);
    if (job.phase != core::JobPhase::Queued || job.spec.open) return std::nullopt;
    if (has_enough(state, job.spec.resources, now)) return std::nullopt;
    return Finder(state, id, now).never();
}

Result<void> refuse_never(core::State state, const core::Submit& submit, Time now) {
    ROLL_TRY(const core::Events events, core::decide(state, submit, now));
    for (const core::Event& event : events) core::apply(state, event);
    for (const core::Event& event : events) {
        const auto hold = never(state, std::get<core::JobSubmitted>(event).job, now);
        if (!hold) continue;
        return fail(ErrorCode::Refused,
                    "nothing that is connected or ordered can run it: " + hold->why, hold->remedy);
    }
    return {};
}

std::string waiting(const core::State& state, JobId id, Time now) {
    if (state.jobs.at(id).phase != core::JobPhase::Queued) return {};
    const auto all = holds(state, id, now);
    if (all.empty()) return {};
    return all.front().rule == "hold" ? "held; " + all.front().remedy : all.front().why;
}

}  // namespace roll::query
