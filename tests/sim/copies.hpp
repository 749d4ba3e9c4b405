// The programs of one attempt on one node, and the guard above them: what roll-worker's supervisor
// looks after. They start, report, save, fail, hang and end as a seed has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/random.hpp"
#include "worker/agent/agent_core.hpp"
#include "worker/agent/supervisor.hpp"

namespace roll::sim {

using agent::Instant;
using agent::Millis;

struct Copy {
    protocol::StartOrder order{};
    Instant killed_at{};               // the leash
    std::optional<Instant> dies_at{};  // SIGKILL has been sent
    bool late = false;                 // it may outlive its leash, for its node stood still
    std::optional<std::pair<std::uint64_t, std::uint64_t>> lost_at{};  // incarnation, beat
    bool up = false;
    bool gone = false;
    Instant up_at{};
    Instant end_at{};
    agent::ExitStatus planned{};  // how it ends by itself
    bool hangs = false;
    bool unfit = false;                       // the node fails its check
    std::vector<bool> exited{};               // by rank
    std::optional<bool> stop_saves{};         // it was told to stop
    std::uint64_t asked = 0;                  // for a checkpoint, which none answers yet
    std::int64_t step = 0;                    // newest that it has saved, or started from
    std::vector<std::int64_t> recorded{};     // of its own, ascending
    std::int64_t newest_recorded = 0;         // of these, also when they are deleted
    std::vector<agent::ProcessEvent> said{};  // and not heard by roll-worker yet

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
    // One second of it. `peer_failed`: one of its gang on another node has ended badly.
    void live(Copy& copy, bool peer_failed, Instant now) const;

  private:
    void plan(Copy& copy, Instant now) const;
    void step(Copy& copy, int rank) const;
    void save(Copy& copy) const;
    void work(Copy& copy, bool peer_failed, Instant now) const;
    void exit_one(Copy& copy, int rank, agent::ExitStatus status) const;
    void exit_all(Copy& copy, agent::ExitStatus status) const;
    void bury(Copy& copy) const;

    Random& random_;
    bool faults_;
};

}  // namespace roll::sim
