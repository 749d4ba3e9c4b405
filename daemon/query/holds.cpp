// Explains each rule that keeps a queued job from starting (a hold), with its remedy. For a running
// job, explains silent nodes.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/check.hpp"
#include "common/counted.hpp"
#include "common/spec/schema/units.hpp"
#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/facts/availability.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/facts/machines.hpp"
#include "daemon/core/placement/avoided.hpp"
#include "daemon/core/placement/capacity.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/limits.hpp"
#include "daemon/core/rules/place.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

std::string gpu_text(const spec::Resources& wanted) {
    const std::string gpus = spec::gpus_text(wanted.gpus_per_node * wanted.gpu_percent);
    return gpus + (gpus == "1" ? " GPU" : " GPUs");
}

// Returns "2 nodes with 4 slots, 8 GPUs and 64 GiB of memory each". Omits the slots if each node
// needs GPUs and only one slot.
std::string need_text(const spec::Resources& wanted) {
    const int nodes = wanted.workers();
    const bool gpus = wanted.gpus_per_node > 0;
    const bool slots = !gpus || wanted.slots_per_node > 1;
    std::vector<std::string> parts;
    if (slots) parts.push_back(counted(wanted.slots_per_node, "slot"));
    if (gpus) parts.push_back(gpu_text(wanted));
    if (wanted.cpus > 0) parts.push_back(counted(wanted.cpus, "CPU"));
    if (wanted.memory > 0) parts.push_back(spec::size_text(wanted.memory) + " of memory");
    const std::string last = parts.back();
    parts.pop_back();
    std::string text = counted(nodes, "node") + " with ";
    if (!parts.empty()) text += fmt::format("{} and ", fmt::join(parts, ", "));
    text += last;
    if (nodes > 1) text += " each";
    if (wanted.segment > 1) text += fmt::format(", in segments of {} nodes", wanted.segment);
    return text;
}

// Explains a shortage of memory or CPUs: too few connected nodes offer as much as the job asks for.
// Empty if enough nodes offer both.
std::string limits_text(const core::State& state, const spec::Resources& wanted) {
    const auto check = [&](auto core::Worker::*offered, auto amount, const char* what,
                           const auto& text) -> std::string {
        if (amount == 0) return "";
        auto largest = amount * 0;
        int enough = 0;
        bool silent = false;
        for (const auto& [id, worker] : state.workers) {
            largest = std::max(largest, worker.*offered);
            enough += worker.*offered >= amount;
            silent |= worker.*offered == 0 && worker.slots > 0;
        }
        if (enough >= std::min<std::ptrdiff_t>(wanted.workers(), std::ssize(state.workers)))
            return "";
        if (enough > 0)
            return fmt::format("{} of {} {} {}", enough,
                               counted(state.workers.size(), "connected node"),
                               enough == 1 ? "offers" : "offer", text(amount));
        if (largest == 0)
            return fmt::format(
                "no connected node reports its {}; update Roll on the nodes to rolld's release",
                what);
        return fmt::format("the largest connected node offers {}{}", text(largest),
                           silent ? "; a roll-worker of an older release does not report it" : "");
    };
    const auto bytes = [](std::int64_t size) { return spec::size_text(size) + " of memory"; };
    std::string text = check(&core::Worker::memory, wanted.memory, "memory", bytes);
    if (text.empty())
        text = check(&core::Worker::cpus, wanted.cpus, "CPUs",
                     [](int count) { return counted(count, "CPU"); });
    return text;
}

// Returns a text with the number of connected nodes that could hold a member of the job if nothing
// else ran. If only the slots, only the GPUs or only the time is short, the text is about that
// resource alone.
std::string shortage_text(const core::State& state, const spec::Resources& wanted, Time now) {
    int slots = 0;
    int gpus = 0;
    int both = 0;
    int long_enough = 0;
    if (std::string text = limits_text(state, wanted); !text.empty()) return text;
    for (const auto& [id, worker] : state.workers) {
        const bool has_slots = worker.slots >= wanted.slots_per_node;
        const bool has_gpus = worker.gpus >= wanted.gpus_per_node;
        const bool has_time = core::has_time_for(core::leaves_at(state, worker), wanted, now);
        slots += has_slots;
        gpus += has_gpus;
        both += has_slots && has_gpus;
        long_enough += has_slots && has_gpus && has_time;
    }
    const auto total = static_cast<int>(state.workers.size());
    if (both == total && total < wanted.workers())
        return fmt::format("only {} {} connected", counted(total, "node"),
                           total == 1 ? "is" : "are");
    const int needed = std::min(wanted.workers(), total);
    const bool one_part = wanted.gpus_per_node == 0 || wanted.slots_per_node == 1;
    std::string what = "these resources";
    int count = both;
    if (both >= needed) {
        count = long_enough;
        what = "these resources for as long as resources.time";
    } else if (slots >= needed && (!one_part || gpus == 0)) {
        count = gpus;
        what = gpu_text(wanted) == "1 GPU" ? "a GPU" : gpu_text(wanted);
    } else if (gpus >= needed && (!one_part || slots == 0)) {
        count = slots;
        what = counted(wanted.slots_per_node, "slot");
    }
    if (count == 0) return "no connected node has " + what;
    return fmt::format("{} of {} {} {}", count, counted(total, "connected node"),
                       count == 1 ? "has" : "have", what);
}

// Returns whether enough workers that take jobs are large enough, whether or not they are busy.
// Returns false if the job asks for a segment, because this function does not check segments.
bool has_enough(const core::State& state, const spec::Resources& wanted, Time now) {
    int left = wanted.workers();
    for (const auto& [id, worker] : state.workers) {
        if (!core::is_large_enough(worker, wanted) || !core::takes_work(state, worker)) continue;
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
                    reasons_of_nodes(state_, job_, shape(core::known_capacity(state_, now_)), now_);
        }
        return std::move(all_);
    }

    std::optional<Hold> never() {
        const core::Capacity known = core::known_capacity(state_, now_);
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

    // Explains what keeps a job group from ending. The group itself never runs.
    void open() {
        const auto inside = state_.index.inside.find(id_);
        const auto left = inside == state_.index.inside.end() ? 0 : inside->second.size();
        if (job_.closed)
            return add("open", fmt::format("closed job group; jobs that have not ended: {}", left),
                       "the group ends by itself when these jobs have ended");
        add("open", fmt::format("open job group; jobs that have not ended: {}", left),
            fmt::format("rollctl submit --into {} adds a job; after rollctl close {} the group "
                        "ends with its last job",
                        id_.value, id_.value));
    }

    void hold() {
        if (!job_.held) return;
        std::string remedy = fmt::format("rollctl release {}", id_.value);
        if (job_.spec.array)
            remedy += fmt::format("; for the whole array: rollctl release {}-{}", job_.array.value,
                                  last_of(job_.array));
        add("hold", "held", remedy);
    }

    void dependencies() {
        for (const spec::After& after : job_.spec.after) {
            if (!core::may_change(state_, after, state_.index)) continue;
            if (after.array) {
                array(after);
                continue;
            }
            add("after", "waits for " + condition_text(after),
                fmt::format("the job starts by itself when job {} meets this condition; to watch: "
                            "rollctl show {}",
                            after.job.value, after.job.value));
        }
    }

    // Explains a dependency on an array, whose jobs have consecutive ids.
    void array(const spec::After& after) {
        const int count = state_.index.arrays.at(after.job).count;
        add("after",
            fmt::format("waits for {}; jobs of that array that have not ended: {} of {}",
                        condition_text(after), core::all_of(state_.index, after)->left, count),
            fmt::format(
                "the job starts by itself when all jobs of the array meet this condition; to "
                "watch: rollctl jobs {}-{}",
                after.job.value, last_of(after.job)));
    }

    // Returns the id of the last job of the array with this first job.
    std::uint64_t last_of(JobId array) const {
        const int count = state_.index.arrays.at(array).count;
        return array.value + static_cast<std::uint64_t>(count) - 1;
    }

    void times() {
        if (!job_.spec.cron.empty())
            return add(
                "cron",
                fmt::format("the next copy of this cron job is queued at {} ({})",
                            to_iso8601(core::due_at(job_)), job_.spec.cron),
                fmt::format("to queue a copy of this cron job now: rollctl update {} begin=now",
                            id_.value));
        if (job_.due) return;
        const std::string begin = job_.spec.begin ? to_iso8601(*job_.spec.begin) : "";
        if (job_.not_before < core::due_at(job_))
            add("begin", "begins at " + begin,
                fmt::format("rollctl update {} begin=now", id_.value));
        else
            add("retry", "backs off until " + to_iso8601(job_.not_before) + last_end(),
                fmt::format("the job starts by itself at that time; to start the job now: rollctl "
                            "update {} begin=now",
                            id_.value));
    }

    // Returns a text such as ", after attempt 2: its worker was lost"; empty if no attempt has
    // ended.
    std::string last_end() const {
        if (job_.past.empty()) return {};
        const core::EndedAttempt& last = job_.past.back();
        return fmt::format(
            ", after attempt {}: {}", last.token.attempt,
            last.reason.empty() ? fmt::format("exit code {}", last.exit_code) : last.reason);
    }

    void secrets() {
        const auto name = core::missing_secret(state_.secrets, job_.user, job_.spec);
        if (!name) return;
        add("secret", fmt::format("user {} no longer has a secret {}", job_.user, *name),
            fmt::format("as user {}: rollctl secret set {} < FILE", job_.user, *name));
    }

    void limits() {
        const core::Limits limits(state_, now_);
        if (!core::allowed_variants(job_, limits, now_).empty()) return;
        const auto excess = excess_of(limits);
        if (!excess) return;
        std::string remedy = excess->remedy;
        if (remedy.empty())
            remedy = fmt::format("the job starts by itself when {}",
                                 excess->rule == "array" ? "one of the array's running jobs ends"
                                                         : "enough other jobs have ended");
        if (!excess->setting.empty())
            remedy +=
                fmt::format(", or raise {} in rolld.yaml and send rolld a SIGHUP", excess->setting);
        add(excess->rule.c_str(), excess->why, std::move(remedy));
    }

    // Returns a limit that blocks a variant of the job; nullopt if no variant is blocked. Prefers a
    // limit that no longer blocks once other jobs have ended (it has no remedy). If there is none,
    // returns the limit of the first blocked variant.
    std::optional<core::Excess> excess_of(const core::Limits& limits) const {
        std::optional<core::Excess> found;
        for (int i = 0; i < job_.spec.shapes(); ++i) {
            auto excess = limits.excess(job_, job_.spec.shape(i));
            if (excess && (!found || excess->remedy.empty())) found = std::move(excess);
            if (found && found->remedy.empty()) break;
        }
        return found;
    }

    // Returns the first allowed variant that fits into `room`; the job's first variant if none
    // fits.
    const spec::Resources& shape(const core::Capacity& room) const {
        for (const int i : core::allowed_variants(job_, core::Limits(state_, now_), now_)) {
            if (!core::find_places(job_.spec.shape(i), room).empty()) return job_.spec.shape(i);
        }
        return job_.spec.resources;
    }

    std::set<WorkerId> shunned_workers() const {
        if (job_.avoid.empty()) return {};
        const auto shapes = core::allowed_variants(job_, core::Limits(state_, now_), now_);
        return core::forbidden_workers(state_, job_, core::all_capacity(state_, now_), shapes);
    }

    void room() {
        const core::Capacity known = core::known_capacity(state_, now_);
        const spec::Resources& wanted = shape(known);
        if (state_.adopting) {
            return add("adopting",
                       "rolld took over from another rolld and first adopts the running jobs",
                       "the job starts by itself after 35 s, plus the seconds of rolld's option "
                       "--volume-patience");
        }
        if (core::find_places(wanted, known).empty()) return unfit(wanted);
        const std::string need = need_text(wanted);
        if (core::find_places(wanted, core::all_capacity(state_, now_)).empty()) {
            return add(
                "silent", "workers that the job needs are silent",
                "the job starts by itself when rolld hears these workers again; rollctl nodes "
                "shows when rolld last heard them");
        }
        const auto shunned = shunned_workers();
        const core::Capacity free = core::free_capacity(state_, now_);
        const bool has_room =
            !core::find_places(wanted, shunned.empty() ? free : core::without(free, shunned))
                 .empty();
        if (has_room && reservation()) return;
        const std::string others =
            shunned.empty()
                ? ""
                : fmt::format(", except on {}, where the job failed", fmt::join(job_.avoid, ", "));
        const std::string order = on_order(state_, wanted);
        add("room", "waits for free resources: needs " + need + others,
            fmt::format("the job starts when earlier jobs end{}; rollctl update {} priority=N "
                        "moves the job forward; rollctl jobs lists the other jobs",
                        order.empty() ? "" : " or Slurm grants " + order + " (rollctl alloc list)",
                        id_.value));
    }

    // Explains that free capacity is reserved for the first waiting job. Returns false if the job
    // waits for another reason.
    bool reservation() {
        const auto first = core::promised(state_, now_);
        if (!first || first->job == id_) return false;
        const int priority = state_.jobs.at(first->job).spec.priority + 1;
        const std::string until =
            first->at
                ? fmt::format("which starts no later than {}", to_iso8601(*first->at))
                : "whose start time is unknown, because it waits for running jobs that do not "
                  "set resources.time";
        add("reservation",
            fmt::format("free capacity is reserved for job {}, {}", first->job.value, until),
            fmt::format("rollctl update {} priority={} puts this job ahead of that job{}",
                        id_.value, priority,
                        first->at ? "; this job can also start at once if its resources.time is so "
                                    "short that it ends 30 s before that start time"
                                  : ""));
        return true;
    }

    // Explains why the connected workers could not hold the job even if nothing else ran.
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
        std::vector<std::string> closed;  // nodes that are drained or were excluded for faults
        for (const auto& [id, worker] : state_.workers) {
            if (!core::is_large_enough(worker, wanted)) continue;
            if (worker.draining || core::is_excluded(state_, worker))
                closed.push_back(worker.node);
            else
                ++fitting;
        }
        if (wanted.segment > 1 && fitting >= wanted.workers()) {
            return add("segment",
                       fmt::format("needs {}; too few connected nodes are in one segment", need),
                       "connect more nodes with roll-worker --segment NAME, or resubmit with a "
                       "smaller resources.segment");
        }
        if (!closed.empty() && fitting + std::ssize(closed) >= wanted.workers()) {
            const std::string last = closed.back();
            const auto count = closed.size();
            closed.resize(std::min(count, kNamesMax));
            return add(
                "room",
                fmt::format("needs {}; {} of {} {} drained: {}{}", need, count,
                            counted(fitting + count, "suitable node"), count == 1 ? "is" : "are",
                            fmt::join(closed, ", "), count > kNamesMax ? ", ..." : ""),
                "rollctl undrain " + last);
        }
        add("room", fmt::format("needs {}; {}", need, shortage_text(state_, wanted, now_)),
            "connect more or larger workers, or resubmit with smaller resources");
    }

    const core::State& state_;
    JobId id_;
    const core::Job& job_;
    Time now_;
    std::vector<Hold> all_;
};

}  // namespace

// Returns a hold for each silent node of a running job. The job's processes there may run until the
// lease and fence end.
static std::vector<Hold> unheard(const core::State& state, const core::Job& job) {
    std::vector<Hold> all;
    if (!job.attempt) return all;
    for (const core::Place& place : job.attempt->places) {
        const auto worker = state.workers.find(place.worker);
        if (place.ended || worker == state.workers.end() || !worker->second.quiet) continue;
        const std::string& node = worker->second.node;
        all.push_back(
            {"silent",
             fmt::format("node {} is silent: the job's processes there may run until the "
                         "node has been silent for 35 s",
                         node),
             fmt::format("the job continues if {0} reconnects by then; otherwise the job restarts; "
                         "to restart the job at once, restart roll-worker on {0}",
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
        return fail(
            ErrorCode::Refused,
            "neither a connected node nor a requested allocation can run the job: " + hold->why,
            hold->remedy);
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
