#include "worker/agent/core/attempt.hpp"

#include <algorithm>

#include "common/json.hpp"

namespace roll::agent {

std::string label(const AttemptKey& key) {
    return "job " + std::to_string(key.job.value) + " attempt " + to_string(key.token);
}

bool all_ready(const Attempt& attempt) {
    return std::ranges::all_of(attempt.ranks, [](const Rank& rank) { return rank.ready; });
}

int programs_of(const protocol::StartOrder& order) {
    const bool ranked = order.kind == "train" || order.kind == "resume";
    return std::max(ranked ? order.ranks_per_node : order.tasks_per_node, 1);
}

Ending ending_of(const Attempt& attempt) {
    Ending ending;
    ending.command = attempt.command();
    for (const Rank& rank : attempt.ranks) {
        ending.exits.push_back(rank.exit);
        ending.failures.push_back(rank.failure);
    }
    ending.first_failed = attempt.first_failed;
    ending.first_rank = attempt.order.node_rank * programs_of(attempt.order);
    if (attempt.stop) {
        ending.stopped = attempt.stop->cause;
        ending.stop_reason = attempt.stop->reason;
    }
    return ending;
}

void note_use(Attempt& attempt, const std::vector<int>& gpus, Instant now) {
    if (attempt.memory > 0) add_memory(attempt.memory_curve, attempt.memory, now);
    int sum = 0;
    int count = 0;
    for (const int gpu : attempt.order.gpus) {
        const auto index = static_cast<std::size_t>(gpu);
        if (index >= gpus.size() || gpus[index] < 0) continue;
        sum += gpus[index];
        ++count;
    }
    // If a job runs on several nodes, only its first node reports GPU use.
    const bool told = count > 0 && attempt.order.node_rank == 0;
    attempt.gpu_percent = told ? std::optional((sum + count / 2) / count) : std::nullopt;
}

void note_usage(Attempt& attempt, const Usage& usage) {
    const auto gpus = static_cast<std::int64_t>(attempt.order.gpus.size());
    attempt.usage = usage;
    attempt.usage.gpu_ms = usage.wall_ms * gpus * attempt.order.gpu_percent / 100;
}

bool seems_hung(const Attempt& attempt, Instant now) {
    const Millis half = step_bound(attempt.steps, attempt.hang).value_or(Millis{}) / 2;
    return !hang_reason(attempt.steps, attempt.hang, attempt.alive, now + half).empty();
}

// Returns the progress for a heartbeat: rank 0's report, if rank 0 runs here, the step of each
// local rank, the GPU use, the memory and the processor time.
static std::string progress_of(const Attempt& attempt) {
    Json ranks = Json::array();
    const int first = attempt.order.node_rank * programs_of(attempt.order);
    for (std::size_t i = 0; i < attempt.steps.size(); ++i) {
        const RankProgress& rank = attempt.steps[i];
        if (!rank.at) continue;
        ranks.push_back(
            {{"rank", first + static_cast<int>(i)}, {"step", rank.step}, {"own_ms", rank.own_ms}});
    }
    const bool has_cpu_time =
        attempt.cpu_ms > 0 && (attempt.order.node_rank == 0 || attempt.order.adds_cpu_times);
    const bool measured = attempt.gpu_percent || attempt.memory > 0 || has_cpu_time;
    if (ranks.empty() && !measured) return attempt.progress;
    Json progress = Json::parse(attempt.progress, nullptr, false);
    if (!progress.is_object()) progress = Json::object();
    if (!ranks.empty()) progress["ranks"] = std::move(ranks);
    if (attempt.gpu_percent) progress["gpu_percent"] = *attempt.gpu_percent;
    if (attempt.memory > 0) {
        const MemoryCurve& curve = attempt.memory_curve;
        progress["memory"] = attempt.memory;
        progress["memory_curve"] = {{"every_s", curve.every.count() / 1000},
                                    {"mebibytes", curve.mebibytes}};
    }
    if (has_cpu_time) progress["cpu_ms"] = attempt.cpu_ms;
    return progress.dump();
}

bool drop_recorded(Attempt& attempt, const protocol::Recorded& recorded) {
    bool changed = recorded.exported && !attempt.exported.empty();
    if (changed) attempt.exported.clear();
    changed |= std::erase_if(attempt.exports, [&](const protocol::WrittenExport& written) {
                   return written.step <= recorded.export_step;
               }) > 0;
    changed |= std::erase_if(attempt.answers, [&](const RequestAnswer& answer) {
                   return answer.number <= recorded.answered;
               }) > 0;
    return changed;
}

protocol::RunningAttempt entry_of(const Attempt& attempt) {
    protocol::RunningAttempt entry;
    entry.attempt = attempt.order.attempt;
    entry.phase = attempt.phase;
    if (attempt.phase == Phase::Ended && attempt.verdict) {
        entry.outcome = attempt.verdict->outcome;
        entry.exit_code = attempt.verdict->exit_code;
        entry.reason = attempt.verdict->reason;
        entry.matched = attempt.matched;
        entry.usage = attempt.usage;
    }
    for (const Unrecorded& written : attempt.unrecorded)
        entry.checkpoints.push_back(written.checkpoint);
    entry.answers = attempt.answers;
    entry.exported = attempt.exported;
    entry.exports = attempt.exports;
    entry.progress = progress_of(attempt);
    return entry;
}

void BeaconTrust::on_answer(std::uint64_t from, std::uint64_t counter) {
    if (from != incarnation) *this = {.incarnation = from};
    answered = counter;
}

bool BeaconTrust::on_look(const Look& look, std::optional<Instant> heard, const LeaseRules& rules) {
    // Ticks of different incarnations (starts of rolld) cannot be compared. If a look (a read of
    // the beacon) shows another incarnation, SilenceBound::looked() handles it.
    if (look.incarnation != incarnation) return true;
    // Compare the look only with an answer to a heartbeat that was sent before the look ended. A
    // later answer may contain a counter that was not yet in the beacon during the look.
    const bool in_contact = heard && *heard <= look.ended && look.ended - *heard <= rules.contact;
    const Millis delay = rules.volume_delay + (look.ended - look.began);
    const auto late = static_cast<std::uint64_t>(delay / rules.tick) + 1;
    broken |= look.counter < seen || (in_contact && look.counter + late < answered);
    seen = std::max(seen, look.counter);
    return !broken;
}

}  // namespace roll::agent
