// The programs of one attempt on one node, and their guard process. They replace the processes that
// roll-worker supervises: they start, report, save, fail, hang and end as the seed decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/random.hpp"
#include "worker/agent/core/agent_core.hpp"
#include "worker/agent/process/supervisor.hpp"

namespace roll::sim {

using agent::Instant;
using agent::Millis;

struct Copy {
    protocol::StartOrder order{};
    Instant killed_at{};               // deadline at which the guard kills the programs
    std::optional<Instant> dies_at{};  // when the programs die; set after SIGKILL
    // the programs may live beyond killed_at, because the node stood still
    bool late = false;
    // When rolld gave the attempt away: incarnation, counter of the beacon.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> lost_at{};
    bool up = false;
    bool gone = false;
    Instant up_at{};
    Instant end_at{};
    agent::ExitStatus planned{};  // exit status if the programs end by themselves
    bool hangs = false;
    bool unfit = false;          // the check of the node fails
    std::vector<bool> exited{};  // by rank: whether it has exited
    // whether the programs save before they stop; set once they are told to stop
    std::optional<bool> stop_saves{};
    std::uint64_t asked = 0;  // number of a requested checkpoint that is not written yet; 0: none
    std::vector<TrainingRequest> requests{};  // not yet answered
    // newest saved step; before the first save, the step at which the programs started
    std::int64_t step = 0;
    // Steps of own checkpoints that rolld has recorded, ascending.
    std::vector<std::int64_t> recorded{};
    std::int64_t newest_recorded = 0;  // newest step ever in `recorded`, even if deleted since
    std::vector<agent::ProcessEvent> said{};  // events that roll-worker has not taken yet

    const AttemptKey& key() const { return order.attempt; }
    bool trains() const { return order.kind == "train" || order.kind == "resume"; }
};

class CopyRules {
  public:
    CopyRules(Random& random, bool faults) : random_(random), faults_(faults) {}

    Copy start(const agent::Start& start, Instant now) const;
    void tell(Copy& copy, const protocol::Command& command) const;
    void terminate(Copy& copy) const;
    void kill(Copy& copy, Instant now) const;
    // Lives for one second. `peer_failed`: programs of the same gang on another node have failed.
    void live(Copy& copy, bool peer_failed, Instant now) const;

  private:
    void plan(Copy& copy, Instant now) const;
    void step(Copy& copy, int rank) const;
    void save(Copy& copy) const;
    void answer(Copy& copy) const;
    void work(Copy& copy, bool peer_failed, Instant now) const;
    void exit_one(Copy& copy, int rank, agent::ExitStatus status) const;
    void exit_all(Copy& copy, agent::ExitStatus status) const;
    void bury(Copy& copy) const;

    Random& random_;
    bool faults_;
};

}  // namespace roll::sim
