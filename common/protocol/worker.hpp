// What rolld and a roll-worker say to each other. Level-triggered both ways: every heartbeat
// carries all that the worker runs, every answer all that it should run, so a lost or doubled
// message does no harm.
//
// The worker beats each second and at once when something changed; every heartbeat is answered. An
// entry of `running` stays until an answer no longer names its attempt; a checkpoint or export is
// said again until `recorded` shows it. Rules: reference to leases in docs/internals.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"

namespace roll::protocol {

// Raised with each release that says something new. A peer of the oldest version goes on working:
// it is answered in its own, does not see fields that it does not know, and what it does not say
// has the value that it had then. 2: heartbeats say beat_ms. 3: start orders carry secrets.
constexpr int kVersion = 3;
constexpr int kOldestVersion = 1;
constexpr int kSecretsVersion = 3;  // an older worker gets no job that has some

struct WrittenCheckpoint {
    std::int64_t step = 0;
    std::string directory;          // absolute, under its final name
    bool deleted = false;           // retention removed it
    std::optional<Token> writer{};  // set with deleted: whose it was
    std::uint64_t asked = 0;        // the request that it answers; 0: none
    std::int64_t save_ms = 0;       // what the save took; 0: not said
    friend bool operator==(const WrittenCheckpoint&, const WrittenCheckpoint&) = default;
};

// One attempt on this worker.
struct RunningAttempt {
    AttemptKey attempt;
    std::string phase;  // "starting", "running", "stopping", "ended"
    // Of an ended one: "done", "app", "infra", "invalid", "yielded", "stopped"; as core::Outcome.
    std::string outcome;
    int exit_code = 0;
    std::string reason;
    std::vector<int> matched{};                  // of the job's retry.on_log, in its logs here
    std::vector<WrittenCheckpoint> checkpoints;  // not yet recorded
    std::string exported;                        // not yet recorded
    std::string progress;  // the last progress report, JSON; for people, never decided by
};

// Of a roll-worker that a Slurm allocation of rolld's started.
struct PilotNote {
    std::string key;           // what rolld called the order
    std::string slurm_job;     // Slurm's id
    std::int64_t ends_at = 0;  // Unix seconds; 0: not known
    friend bool operator==(const PilotNote&, const PilotNote&) = default;
};

struct Heartbeat {
    int version = kVersion;  // of the worker
    std::string session;     // drawn by roll-worker at its start
    std::string node;
    std::uint64_t generation = 0;  // grows with each roll-worker of a node; 0: not known
    int slots = 0;
    int gpus = 0;
    std::uint64_t sequence = 0;
    bool bound_below_lease = true;  // this heartbeat renews (leases rule 5)
    bool draining = false;          // asked to end: nothing new may be placed on it
    bool heard_recently = false;    // an answer came within `company` (rule 7)
    int beat_ms = 1000;             // how often it beats, at least
    std::string segment{};          // of the network that the node lies in; empty: not known
    std::vector<int> gpu_numa{};    // NUMA node of each GPU; empty: not known
    std::string wall{};             // "cgroup", "namespace" or "marks"; empty: not known
    std::optional<PilotNote> pilot{};
    std::vector<RunningAttempt> running{};
};

// Everything that a worker needs to run its part of an attempt.
struct StartOrder {
    AttemptKey attempt;
    std::string kind;      // spec::name_of(JobKind)
    std::string document;  // spec::JobSpec::document
    std::string output;    // absolute directory
    int node_rank = 0;
    int nodes = 1;
    int ranks_per_node = 1;
    std::vector<int> slots;
    std::vector<int> gpus;
    int gpu_percent = 100;  // of each of these, which others share below 100
    std::string nonce;      // drawn by rolld per attempt: names the ranks' rendezvous
    // Recorded checkpoints of the job and of its source, newest first: what to start from.
    std::vector<WrittenCheckpoint> checkpoints;
    std::int64_t time_limit_seconds = 0;  // 0: none
    std::int64_t hang_after_seconds = 0;  // between two steps; 0: for ever, -1: learned
    // For the environment of the job's programs; written to no file and no log.
    std::map<std::string, std::string> secrets{};
    std::string refused{};  // why it must not start: one sentence; the worker ends it at once
    friend bool operator==(const StartOrder&, const StartOrder&) = default;
};

struct StopOrder {
    AttemptKey attempt;
    std::string reason;
    bool checkpoint = false;         // save at the next step boundary first
    std::int64_t grace_seconds = 0;  // until it is killed; 0: as long as the worker gives
    friend bool operator==(const StopOrder&, const StopOrder&) = default;
};

// Somebody wants a checkpoint now. Said until one that answers it is recorded.
struct SaveOrder {
    AttemptKey attempt;
    std::uint64_t asked = 0;  // grows with each request of an attempt
    friend bool operator==(const SaveOrder&, const SaveOrder&) = default;
};

struct Recorded {
    AttemptKey attempt;
    std::vector<std::int64_t> steps;  // recorded checkpoints of this attempt
    bool exported = false;
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

struct Answer {
    int version = kVersion;  // of the worker that it is for
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;  // of the heartbeat that it echoes
    std::int64_t counted = 0;    // beats of silence counted when that heartbeat came
    std::uint64_t counter = 0;   // the beacon's counter from which rolld counts on
    std::string beacon{};        // path of the beacon file; empty: none
    std::vector<AttemptKey> keep{};
    std::vector<StartOrder> start{};
    std::vector<StopOrder> stop{};
    std::vector<SaveOrder> save{};
    std::vector<Recorded> recorded{};
    std::vector<AttemptKey>
        fenced{};  // the worker said that it runs these, and they are not current
    friend bool operator==(const Answer&, const Answer&) = default;
};

std::string encode(const Heartbeat& heartbeat);
std::string encode(const Answer& answer);
Result<Heartbeat> decode_heartbeat(std::string_view frame);
// The sequence of a frame that says what `before` said but for that: most heartbeats do.
std::optional<std::uint64_t> repeated(std::string_view before, std::string_view frame);
Result<Answer> decode_answer(std::string_view frame);

}  // namespace roll::protocol
