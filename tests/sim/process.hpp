// A simulated roll-worker process: what the real one does with answers, copies, leases and
// checkpoints, at one step a second. Time is counted in seconds and in beats of rolld's beacon.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core.hpp"
#include "tests/sim/random.hpp"

namespace roll::sim {

constexpr int kLeaseBeats = 15;
constexpr int kKillBeats = 30;
constexpr int kGoneBeats = 35;

struct Written {
    std::int64_t step = 0;
    Token writer{};
    bool deleted = false;
    std::uint64_t asked = 0;
    std::int64_t save_ms = 0;
};

// One attempt on one worker: the physical thing.
struct Copy {
    AttemptKey key{};
    std::size_t member = 0;
    std::size_t nodes = 1;
    std::vector<int> slots{};
    std::vector<int> gpus{};
    int gpu_percent = 100;
    bool trains = false;
    bool exports = false;
    bool up = false;
    bool ended = false;
    bool stopping = false;
    core::Outcome outcome = core::Outcome::Done;
    int exit_code = 0;
    std::vector<int> matched{};
    int up_at = 0;
    int end_at = 0;
    core::Outcome planned = core::Outcome::Done;
    std::uint64_t asked = 0;      // the newest request for a checkpoint that no save answers
    std::uint64_t told = 0;       // the newest that was heard
    std::int64_t step = 0;        // newest that it has written, or started from
    std::int64_t base_beats = 0;  // the beat at which the last answered heartbeat was sent
    std::uint64_t end_said = 0;   // the heartbeat that first told the end
    std::vector<Written> unrecorded{};
    std::string exported{};
    bool alive() const { return !ended; }
};

struct Heartbeat {
    std::string node{};
    std::string session{};
    std::uint64_t generation = 0;
    int slots = 0;
    int gpus = 0;
    std::string segment{};
    std::vector<int> gpu_numa{};
    std::optional<core::Pilot> pilot{};
    std::uint64_t sequence = 0;
    bool below_lease = true;
    std::vector<Copy> running{};
};

struct Order {
    AttemptKey key{};
    std::size_t member = 0;
    int nodes = 1;
    core::Place place{};
    spec::JobSpec spec{};
    std::vector<core::Checkpoint> checkpoints{};  // recorded, ascending
};

struct Answer {
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    std::vector<Order> start{};
    std::set<AttemptKey> keep{};
    std::set<AttemptKey> stop{};
    std::map<AttemptKey, std::uint64_t> save{};
    std::set<AttemptKey> fenced{};
    std::map<AttemptKey, std::set<std::int64_t>> recorded{};
    std::set<AttemptKey> exported{};
    bool names(const AttemptKey& key) const;
};

struct Process {
    std::string node{};
    std::string session{};
    std::uint64_t generation = 0;
    int slots = 0;
    int gpus = 0;
    std::string segment{};
    std::vector<int> gpu_numa{};
    std::optional<core::Pilot> pilot{};
    std::uint64_t sequence = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t echoed = 0;
    std::map<std::uint64_t, std::int64_t> sent{};  // heartbeat -> beat at its sending
    std::map<AttemptKey, Copy> copies{};
    std::set<AttemptKey> ran{};
};

// What a copy can know of its gang.
struct Peers {
    bool all_done_or_alive = true;
};

class ProcessRules {
  public:
    ProcessRules(Random& random, bool faults) : random_(random), faults_(faults) {}

    // The copies that the answer makes this process start.
    std::vector<AttemptKey> on_answer(Process& p, const Answer& answer, std::int64_t beats,
                                      int now) const;
    void live(Copy& copy, const Peers& peers, std::int64_t beats, int now) const;
    static Heartbeat beat(Process& p, std::int64_t beats);

  private:
    bool start(Process& p, const Order& order, std::int64_t sent_at, std::int64_t beats,
               int now) const;
    void plan(Copy& copy, const Order& order, int now) const;
    void write_checkpoint(Copy& copy) const;
    static void prune(Copy& copy, const Answer& answer);
    void end(Copy& copy, core::Outcome outcome, int exit_code) const;

    Random& random_;
    bool faults_;
};

}  // namespace roll::sim
