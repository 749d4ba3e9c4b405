// What the leases promise (docs/leases.md), seen from outside: what rolld counts stays below what
// the workers hold, a worker that was told obeys, and what was given away runs no more.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {
namespace {

constexpr agent::LeaseRules kRules;

bool lives(const Copy& copy) { return !copy.gone && !copy.dies_at; }

}  // namespace

// Of each attempt that the worker's last heartbeat spoke of; nothing while events are not audited.
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

// Rules 4, 9 and 10: no rolld has counted more silence than the bound of what runs there.
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
            ROLL_CHECK(counted * kRules.beat <= bound + Millis{1100});
        }
    }
}

// Rule 4: once a worker's silence has run out, nothing of its attempts is left there.
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

// Rules 6 and 10: a worker that has heard that an attempt is not current, or seen the beat at which
// it was given away, has killed it; and what is recorded its programs know.
void World::check_obeyed(Node& node) const {
    RollWorker& worker = *node.worker;
    for (const Word& word : std::exchange(worker.obeyed, {})) {
        const std::pair order(word.answer.incarnation, word.answer.sequence);
        if (order < worker.newest) continue;  // it is older than what it has heard already
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
        // Not what a turn gave away that the volume refused.
        if (!copy.lost_at || auditor_.is_current(key, node.name)) continue;
        // What a rolld counted that has ended while the node's clock stood still nobody tells it.
        if (node.clock_stops && copy.lost_at->first < worker.saw->incarnation) continue;
        if (*copy.lost_at <= std::pair(worker.saw->incarnation, worker.saw->counter))
            ROLL_CHECK(!lives(copy));
    }
}

}  // namespace roll::sim
