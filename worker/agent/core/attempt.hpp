// The state of one attempt on this node. It is plain data; the rules are in AgentCore.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/protocol/worker.hpp"
#include "worker/agent/core/lease.hpp"
#include "worker/agent/core/memory_curve.hpp"
#include "worker/agent/core/progress.hpp"
#include "worker/agent/core/verdict.hpp"

namespace roll::agent {

struct StopRules {
    Millis grace{30000};  // time between the request to stop and SIGKILL
    // time from the request to save a checkpoint and stop until SIGKILL
    Millis checkpoint_grace{300000};
    // time from the loss of a peer, or from the detection of a hang, until SIGKILL; in this time,
    // the ranks can report the cause
    Millis settle{5000};
    // time from a command's failure until the attempt ends as failed. Slurm and systemd send
    // SIGTERM to all processes, and roll-worker may get it after the command. If a command fails
    // less than this time before roll-worker is asked to end, the command counts as stopped, not as
    // failed.
    Millis hold{1000};
};

using protocol::Phase;

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
    std::uint64_t asked = 0;  // number of the save request that this checkpoint answers
    std::int64_t save_ms = 0;
};

// A checkpoint that rolld has not recorded yet. Each heartbeat reports the checkpoint until rolld
// records it.
struct Unrecorded {
    protocol::WrittenCheckpoint checkpoint;
    // sequence number of the first heartbeat that reported the checkpoint
    std::optional<std::uint64_t> said{};
};

struct Attempt {
    protocol::StartOrder order;
    SilenceBound bound{};
    Phase phase = Phase::Starting;
    std::vector<Rank> ranks{};
    std::vector<RankProgress> steps{};  // progress of each local rank
    HangRule hang{};
    Instant alive{};  // when a rank last reported activity other than a step
    std::optional<int> first_failed{};
    std::optional<Instant> settle_at{};
    // end of the hold of a failed command (StopRules::hold); nullopt: no hold
    std::optional<Instant> held_until{};
    std::optional<StopRequest> stop{};
    bool kill_sent = false;
    bool gone = false;
    std::deque<Staged> staged{};
    bool publishing = false;
    std::vector<Unrecorded> unrecorded{};
    std::uint64_t asked = 0;               // number of the newest save request passed to the ranks
    std::uint64_t requested = 0;           // number of the newest request passed to the ranks
    std::vector<RequestAnswer> answers{};  // answers that rolld has not recorded yet
    // Steps of the checkpoints that rolld has recorded and that were announced to the ranks.
    std::set<std::int64_t> told{};
    std::string exported{};
    std::vector<protocol::WrittenExport> exports{};  // exports that rolld has not recorded yet
    std::string progress{};
    // newest text of a rank about skipped training (skipped_text()); empty: none
    std::string skipped{};
    std::optional<int> gpu_percent{};  // mean GPU utilization; set only on the first node
    std::int64_t memory = 0;           // memory of the attempt's processes in bytes; 0: unknown
    MemoryCurve memory_curve{};
    std::int64_t cpu_ms = 0;     // processor time of the attempt's processes until now; 0: unknown
    std::vector<int> matched{};  // indices of the job's log patterns that match a line of the logs
    std::optional<Verdict> verdict{};
    Usage usage{};
    // Sequence number of the first heartbeat that reported the attempt's end
    std::optional<std::uint64_t> end_said{};

    bool ranked() const { return order.kind == "train" || order.kind == "resume"; }
    bool command() const { return order.kind == "command"; }
};

// Returns "job ID attempt TOKEN", for logs.
std::string label(const AttemptKey& key);

bool all_ready(const Attempt& attempt);

// Stores the mean utilization of the attempt's GPUs, and adds the attempt's memory to its memory
// curve. `gpus` has the utilization of each GPU of the worker in percent (-1: unknown).
void note_use(Attempt& attempt, const std::vector<int>& gpus, Instant now);

// Stores the attempt's resource usage. `usage` has no GPU time; this function adds the GPU time.
void note_usage(Attempt& attempt, const Usage& usage);

// Drops the exports and answers that rolld has recorded. Returns true if at least one was dropped.
bool drop_recorded(Attempt& attempt, const protocol::Recorded& recorded);

// Returns true if the attempt has made no progress for half of the allowed time. Its ranks must
// then write their stacks, before the attempt is stopped as hung.
bool seems_hung(const Attempt& attempt, Instant now);

// Returns the attempt's entry in a heartbeat.
protocol::RunningAttempt entry_of(const Attempt& attempt);

// Returns the data from which judge() decides the outcome once the attempt is gone.
Ending ending_of(const Attempt& attempt);

// Returns the number of programs of the order on one node: one per rank for a training job,
// tasks_per_node for a gang, else 1.
int programs_of(const protocol::StartOrder& order);

// Decides whether a look (a read of rolld's beacon file) may be trusted. While rolld answers, the
// counter in the file is compared with the counter in the last answer. If the file is older than
// the volume's delay can explain, no look is trusted until rolld is restarted.
struct BeaconTrust {
    std::uint64_t incarnation = 0;
    std::uint64_t answered = 0;  // beacon counter in the last answer
    std::uint64_t seen = 0;      // highest beacon counter that a look showed
    bool broken = false;

    void on_answer(std::uint64_t incarnation, std::uint64_t counter);
    // Returns whether `look` may be trusted. `heard` is the send time of the newest answered
    // heartbeat.
    bool on_look(const Look& look, std::optional<Instant> heard, const LeaseRules& rules);
};

}  // namespace roll::agent
