// Checks the attempts that are ended because Slurm reports a node down (docs/slurm.md). Only
// attempts whose output is named by token are ended, their programs do not outlive the leases, and
// an attempt on a node that is really dead is ended soon.
#include <algorithm>

#include "common/check.hpp"
#include "daemon/slurm/commands.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {
namespace {

constexpr int kLostAfterBeats = 35;
// limit for `known`, counted while no errand runs and answers are true
constexpr int kKnownSeconds = 5;
constexpr int kAskedSeconds = 55;

// Returns whether a member was ended because Slurm reported its node down. Its peers are stopped
// for the same reason.
bool by_slurms_word(const core::MemberEnded& ended) {
    return ended.outcome == core::Outcome::Infra &&
           ended.reason.starts_with("Slurm says that node ");
}

}  // namespace

// Notes the members that were ended because Slurm reported their node down. Reads the events of the
// turn that was just committed (from number `turn` on), and of earlier turns that a killed rolld
// did not finish.
void World::note_forsaken(std::size_t turn) {
    for (noted_ = std::min(noted_, turn); noted_ < ledger_.size(); ++noted_) {
        const auto* ended = std::get_if<core::MemberEnded>(&ledger_[noted_]);
        if (ended == nullptr || !by_slurms_word(*ended)) continue;
        forsaken_[ended->attempt];
        if (noted_ >= turn) forsake(*ended);
    }
}

// Checks a member that was ended because Slurm reported its node down: the worker is silent, and
// the job's output is named by token.
void World::forsake(const core::MemberEnded& ended) {
    const core::State& state = engine_->state();
    ROLL_CHECK(state.jobs.at(ended.attempt.job).spec.trains());
    const core::Worker& worker = state.workers.at(ended.worker);
    const auto session = sessions_->all().find(worker.session);
    const bool heard = session != sessions_->all().end();
    if (heard) ROLL_CHECK(steady_now() - session->second.heard_at > std::chrono::seconds(2));
    forsaken_[ended.attempt] = {worker.node, state.incarnation,
                                heard ? session->second.renewed_at : 0};
    ++totals_.forsaken;
    const auto node = std::ranges::find(nodes_, worker.node, &Node::name);
    totals_.twice += node->copies.contains(ended.attempt);
}

// Checks that if Slurm was wrong, the programs end at the latest when the worker's silence reaches
// its limit.
void World::check_forsaken() {
    for (const auto& [key, forsaken] : forsaken_) {
        if (forsaken.incarnation != engine_->state().incarnation) continue;
        if (published_ - forsaken.renewed_at < kLostAfterBeats) continue;
        const auto node = std::ranges::find(nodes_, forsaken.node, &Node::name);
        const auto copy = node->copies.find(key);
        if (copy == node->copies.end() || second_ < node->suspended_until) continue;
        ROLL_CHECK(copy->second.gone || copy->second.late);
    }
}

// Takes an answer of Slurm. If it does not report a dead node as down, restarts the count of the
// seconds for which rolld could have known of that node's death.
void World::note_answer(const pilots::Outcome& outcome) {
    const auto* nodes = std::get_if<pilots::NodesTold>(&outcome);
    const auto* polled = std::get_if<pilots::Polled>(&outcome);
    if (nodes != nullptr && nodes->rows &&
        std::ranges::any_of(*nodes->rows, &slurm::NodeRow::down)) {
        said_down_ = true;
        said_down_at_ = second_;
    }
    for (auto& [name, gone] : gone_) {
        const auto told_by_node = [&](const slurm::NodeRow& row) {
            return row.name == name && row.down;
        };
        const auto told_by_job = [&](const slurm::QueueRow& row) {
            const std::string key = slurm::key_of(row.comment);
            return name.ends_with("." + row.id + "." + key) &&
                   (row.state == "NODE_FAIL" ||
                    (row.phase == slurm::Phase::Running && row.nodes < queue_.nodes));
        };
        const bool told =
            (nodes == nullptr && polled == nullptr) ||
            (nodes != nullptr && nodes->rows && std::ranges::any_of(*nodes->rows, told_by_node)) ||
            (polled != nullptr && polled->rows && std::ranges::any_of(*polled->rows, told_by_job));
        if (!told) gone.known = 0;
    }
}

// Checks that the training on a dead node is given to other nodes soon: after at most five seconds
// in which Slurm reports the node down, its worker is silent, and rolld waits for no command.
void World::check_gone_nodes() {
    if (!slurm_ || behind_ || audited_ < ledger_.size()) return;
    const core::State& state = engine_->state();
    const auto& silent = sessions_->silent(state, published_);
    std::map<std::string, Gone> still;
    for (const SlurmJob& job : slurm_->jobs()) {
        for (const auto& [index, noticed] : job.failed) {
            const std::string name = node_name(job, index);
            const auto holds = [&](const auto& item) {
                return item.second.node == name && silent.contains(item.first) &&
                       auditor_.trains_on(item.first);
            };
            if (std::ranges::none_of(state.workers, holds)) continue;
            Gone& gone = still[name] = gone_[name];
            const bool said = job.down.contains(index) && !job.forgotten && !slurm_->away(second_);
            gone.known = said ? gone.known + (at_slurm_ ? 0 : 1) : 0;
            ROLL_CHECK(++gone.silent > kAskedSeconds || gone.known <= kKnownSeconds);
        }
    }
    gone_ = std::move(still);
}

}  // namespace roll::sim
