// One attempt on this node, as AgentCore sees it. Plain data; the rules are AgentCore's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/protocol/worker.hpp"
#include "worker/agent/lease.hpp"
#include "worker/agent/progress.hpp"
#include "worker/agent/verdict.hpp"

namespace roll::agent {

struct StopRules {
    Millis grace{30000};              // between the request to stop and SIGKILL
    Millis checkpoint_grace{300000};  // the same, if a checkpoint was asked for
    Millis settle{5000};  // how long after a lost peer the culprit here may tell its own reason
};

enum class Phase { Starting, Running, Stopping, Ended };
const char* name_of(Phase phase);

struct Rank {
    bool ready = false;
    std::optional<ExitStatus> exit{};
    std::string failure{};
};

struct StopRequest {
    StopCause cause = StopCause::Asked;
    std::string reason;
    bool checkpoint = false;
    Instant kill_at{};
};

struct Staged {
    std::int64_t step = 0;
    std::string from;
    std::string to;
    std::uint64_t asked = 0;  // the request that it answers
    std::int64_t save_ms = 0;
};

// Said in each heartbeat until an answer shows that it was taken note of.
struct Unrecorded {
    protocol::WrittenCheckpoint checkpoint;
    std::optional<std::uint64_t> said{};  // sequence of the first heartbeat with it
};

struct Attempt {
    protocol::StartOrder order;
    Bound bound{};
    Phase phase = Phase::Starting;
    std::vector<Rank> ranks{};
    std::vector<RankProgress> steps{};  // by rank of this node
    HangRule hang{};
    Instant alive{};  // when one of them last said anything new
    std::optional<int> first_failed{};
    std::optional<Instant> settle_at{};
    std::optional<StopRequest> stop{};
    bool kill_sent = false;
    bool gone = false;
    std::deque<Staged> staged{};
    bool publishing = false;
    std::vector<Unrecorded> unrecorded{};
    std::uint64_t asked = 0;        // the newest request for a checkpoint that the ranks know
    std::set<std::int64_t> told{};  // steps that the ranks know to be recorded
    std::string exported{};
    std::string progress{};
    std::optional<int> gpu_percent{};  // how busy its GPUs are on average, on its first node
    std::vector<int> matched{};        // of the job's patterns, in its logs
    std::optional<Verdict> verdict{};
    std::optional<std::uint64_t> end_said{};  // sequence of the first heartbeat that said so

    bool ranked() const { return order.kind == "train" || order.kind == "resume"; }
    bool command() const { return order.kind == "command"; }
};

// `use` is of each GPU of the worker, in percent; -1: not known.
void note_gpu_use(Attempt& attempt, const std::vector<int>& use);

// As the heartbeat says it.
protocol::RunningAttempt entry_of(const Attempt& attempt);

// What judges it, once it is gone.
Ending ending_of(const Attempt& attempt);

// Programs started for an attempt on one node: its ranks, else one.
int programs_of(const protocol::StartOrder& order);

// Whether looks at the beacon are evidence. While rolld is heard they are compared with its
// answers: a volume that shows older beats than it may is not believed until the next incarnation.
struct BeaconTrust {
    std::uint64_t incarnation = 0;
    std::uint64_t answered = 0;  // the counter in the last answer
    std::uint64_t seen = 0;      // the highest counter that a look showed
    bool broken = false;

    void on_answer(std::uint64_t incarnation, std::uint64_t counter);
    // False: this look is no evidence. `heard`: when the last heartbeat that was answered was sent.
    bool on_look(const Look& look, std::optional<Instant> heard, const LeaseRules& rules);
};

}  // namespace roll::agent
