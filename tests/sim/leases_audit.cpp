// Checks from outside what the leases promise (docs/leases.md): rolld counts no more silence than
// the workers allow for, a worker obeys the orders that it has received, and attempts that were
// given away do not run.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {
namespace {

constexpr agent::LeaseRules kRules;

bool lives(const Copy& copy) { return !copy.gone && !copy.dies_at; }

}  // namespace

// Returns the auditor's view of each attempt in the worker's last heartbeat. Empty while the
// auditor has not seen all events.
std::map<AttemptKey, World::Truth> World::truth(WorkerId id,
                                                const gateway::Session& session) const {
    std::map<AttemptKey, Truth> all;
    if (audited_ < ledger_.size() || behind_) return all;
    for (const protocol::RunningAttempt& entry : session.last.running) {
        const bool current = auditor_.is_current(entry.attempt, id);
        all[entry.attempt] = {current, current ? auditor_.recorded(entry.attempt) : 0};
    }
    return all;
}

// Rules 4, 9 and 10: checks that rolld has counted no more silence than the deadlines of the
// running programs allow.
void World::check_bounds() const {
    if (audited_ < ledger_.size() || behind_) return;
    for (const Node& node : nodes_) {
        if (!node.worker) continue;
        const auto session = sessions_->all().find(node.worker->session);
        if (session == sessions_->all().end()) continue;
        const auto counted = static_cast<std::int64_t>(published_ - session->second.renewed_at);
        for (const auto& [key, copy] : node.copies) {
            if (!lives(copy) || copy.late || !auditor_.is_current(key, node.name)) continue;
            const Millis bound = node.clock - copy.killed_at + kRules.lease + kRules.fence;
            ROLL_CHECK(counted * kRules.tick <= bound + Millis{1100});
        }
    }
}

// Rule 4: checks that once a worker's silence has reached the limit, no program of its attempts
// runs there.
void World::note_given_away(const std::vector<core::Input>& gone) {
    if (audited_ < ledger_.size() || behind_) return;
    for (const core::Input& input : gone) {
        const WorkerId id = std::get<core::WorkerGone>(input).worker;
        const std::string& name = engine_->state().workers.at(id).node;
        Node& node = *std::ranges::find(nodes_, name, &Node::name);
        for (auto& [key, copy] : node.copies) {
            if (!auditor_.is_current(key, id)) continue;
            const bool excused = copy.late || second_ < node.suspended_until;
            ROLL_CHECK(copy.gone || excused);
            copy.lost_at = {engine_->state().incarnation, published_};
        }
    }
}

// Rules 6 and 10: checks that a worker has killed an attempt once it has heard that the attempt is
// not current, or has read the beat at which the attempt was given away. Also checks that the
// attempt's programs know which checkpoints are recorded.
void World::check_obeyed(Node& node) const {
    RollWorker& worker = *node.worker;
    for (const Word& word : std::exchange(worker.obeyed, {})) {
        const std::pair order(word.answer.incarnation, word.answer.sequence);
        if (order < worker.newest) continue;  // older than the newest answer taken
        worker.newest = order;
        const bool fresh = worker.stood_at && word.answer.sequence > *worker.stood_at;
        if (fresh) worker.stood_at.reset();
        for (const auto& [key, truth] : word.truth) {
            const auto found = node.copies.find(key);
            if (found == node.copies.end() || !lives(found->second)) continue;
            ROLL_CHECK(truth.current);
            ROLL_CHECK(found->second.newest_recorded >= truth.recorded);
            if (fresh) found->second.late = false;
        }
    }
    if (!worker.saw) return;
    worker.newest = std::max(worker.newest, {worker.saw->incarnation, 0});
    for (const auto& [key, copy] : node.copies) {
        // Skip attempts that a refused turn gave away, because these attempts are current again.
        if (!copy.lost_at || auditor_.is_current(key, node.name)) continue;
        // Skip attempts that an earlier rolld gave away while the node's clock stood still, because
        // nobody can tell the node about this.
        if (node.clock_stops && copy.lost_at->first < worker.saw->incarnation) continue;
        if (*copy.lost_at <= std::pair(worker.saw->incarnation, worker.saw->counter))
            ROLL_CHECK(!lives(copy));
    }
}

}  // namespace roll::sim
