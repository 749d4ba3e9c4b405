#include "worker/agent/attempt.hpp"

#include <algorithm>

namespace roll::agent {

const char* name_of(Phase phase) {
    switch (phase) {
        case Phase::Starting: return "starting";
        case Phase::Running: return "running";
        case Phase::Stopping: return "stopping";
        case Phase::Ended: return "ended";
    }
    return "ended";
}

int programs_of(const protocol::StartOrder& order) {
    const bool ranked = order.kind == "train" || order.kind == "resume";
    return ranked ? std::max(order.ranks_per_node, 1) : 1;
}

protocol::RunningAttempt entry_of(const Attempt& attempt) {
    protocol::RunningAttempt entry;
    entry.attempt = attempt.order.attempt;
    entry.phase = name_of(attempt.phase);
    if (attempt.phase == Phase::Ended && attempt.verdict) {
        entry.outcome = attempt.verdict->outcome;
        entry.exit_code = attempt.verdict->exit_code;
        entry.reason = attempt.verdict->reason;
        entry.matched = attempt.matched;
    }
    for (const Unrecorded& written : attempt.unrecorded)
        entry.checkpoints.push_back(written.checkpoint);
    entry.exported = attempt.exported;
    entry.progress = attempt.progress;
    return entry;
}

void BeaconTrust::on_answer(std::uint64_t from, std::uint64_t counter) {
    if (from != incarnation) *this = {.incarnation = from};
    answered = counter;
}

bool BeaconTrust::on_look(const Look& look, bool in_contact, const LeaseRules& rules) {
    if (look.incarnation != incarnation) return true;  // older or newer: judged elsewhere
    const Millis delay = rules.volume_delay + (look.ended - look.began);
    const auto late = static_cast<std::uint64_t>(delay / rules.beat) + 1;
    broken |= look.counter < seen || (in_contact && look.counter + late < answered);
    seen = std::max(seen, look.counter);
    return !broken;
}

}  // namespace roll::agent
