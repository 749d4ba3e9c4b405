// The protocol between rolld and a roll-worker. It is level-triggered: every heartbeat lists all
// attempts that the worker runs, every answer all that it should run, so lost or repeated messages
// do no harm.
//
// The worker sends a heartbeat every second and at once after a change; rolld answers each one. An
// entry of `running` stays until an answer no longer names its attempt. A checkpoint or export is
// repeated until `recorded` lists it. docs/leases.md has the rules of leases.
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

// The protocol version. Peers down to kOldestVersion are supported: replies use the peer's version,
// and missing fields take that version's default. Version 2 added beat_ms to heartbeats, version 3
// secrets to start orders.
constexpr int kVersion = 3;
constexpr int kOldestVersion = 1;
constexpr int kSecretsVersion = 3;  // older workers get no jobs with secrets

struct WrittenCheckpoint {
    std::int64_t step = 0;
    std::string directory;          // absolute path with the final name
    bool deleted = false;           // retention deleted it
    std::optional<Token> writer{};  // if deleted: the attempt that wrote it
    std::uint64_t asked = 0;        // number of the request that this checkpoint answers; 0 if none
    std::int64_t save_ms = 0;       // duration of the save in ms; 0 if unknown
    friend bool operator==(const WrittenCheckpoint&, const WrittenCheckpoint&) = default;
};

// One attempt on this worker.
struct RunningAttempt {
    AttemptKey attempt;
    std::string phase;  // "starting", "running", "stopping", "ended"
    // If ended: "done", "app", "infra", "invalid", "yielded" or "stopped", as in core::Outcome.
    std::string outcome;
    int exit_code = 0;
    std::string reason;
    std::vector<int> matched{};                  // indices into retry.on_log that matched the log
    std::vector<WrittenCheckpoint> checkpoints;  // written but not yet recorded by rolld
    std::string exported;                        // not yet recorded
    std::string progress;                        // the last progress report, JSON; only for people
};

// Sent by a roll-worker that runs in a Slurm allocation which rolld ordered.
struct PilotNote {
    std::string key;           // rolld's name of the order
    std::string slurm_job;     // Slurm's job id
    std::int64_t ends_at = 0;  // end of the allocation in Unix seconds; 0 if unknown
    friend bool operator==(const PilotNote&, const PilotNote&) = default;
};

struct Heartbeat {
    int version = kVersion;  // the worker's protocol version
    std::string session;     // random id that roll-worker chooses at its start
    std::string node;
    std::uint64_t generation = 0;  // increases with each roll-worker of a node; 0 if unknown
    int slots = 0;
    int gpus = 0;
    std::uint64_t sequence = 0;
    bool bound_below_lease = true;  // this heartbeat renews the lease (leases rule 5)
    bool draining = false;          // the worker was told to stop: it takes no new attempts
    bool heard_recently = false;    // an answer arrived within the time `company` (leases rule 7)
    int beat_ms = 1000;             // maximum time between heartbeats in ms
    std::string segment{};          // network segment of the node; empty if unknown
    std::vector<int> gpu_numa{};    // NUMA node of each GPU; empty if unknown
    std::string wall{};             // "cgroup", "namespace" or "marks"; empty if unknown
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
    int gpu_percent = 100;  // share of each GPU; below 100 other jobs use it too
    std::string nonce;      // random per attempt; identifies the ranks' rendezvous
    // Recorded checkpoints to start from, of the job and its source job, newest first.
    std::vector<WrittenCheckpoint> checkpoints;
    std::int64_t time_limit_seconds = 0;  // per attempt; 0 means no limit
    std::int64_t hang_after_seconds = 0;  // maximum time of a step; 0: no limit, -1: learned
    // Secrets for the environment of the job's programs. Never written to a file or log.
    std::map<std::string, std::string> secrets{};
    std::string refused{};  // if not empty, why the worker must fail the attempt at once
    friend bool operator==(const StartOrder&, const StartOrder&) = default;
};

struct StopOrder {
    AttemptKey attempt;
    std::string reason;
    bool checkpoint = false;  // save at the next step boundary first
    // Time until the attempt is killed; 0 means the worker's default.
    std::int64_t grace_seconds = 0;
    friend bool operator==(const StopOrder&, const StopOrder&) = default;
};

// Requests a checkpoint now. Repeated until a checkpoint that answers it is recorded.
struct SaveOrder {
    AttemptKey attempt;
    std::uint64_t asked = 0;  // request number, increasing within an attempt
    friend bool operator==(const SaveOrder&, const SaveOrder&) = default;
};

struct Recorded {
    AttemptKey attempt;
    std::vector<std::int64_t> steps;  // recorded checkpoints of this attempt
    bool exported = false;
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

struct Answer {
    int version = kVersion;  // the worker's protocol version
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;  // sequence of the heartbeat that it answers
    std::int64_t counted = 0;    // ticks of silence counted when that heartbeat arrived
    std::uint64_t counter = 0;   // the beacon's counter from which rolld continues counting
    std::string beacon{};        // path of the beacon file; empty if there is none
    std::vector<AttemptKey> keep{};
    std::vector<StartOrder> start{};
    std::vector<StopOrder> stop{};
    std::vector<SaveOrder> save{};
    std::vector<Recorded> recorded{};
    std::vector<AttemptKey> fenced{};  // attempts that the worker runs but that are not current
    friend bool operator==(const Answer&, const Answer&) = default;
};

std::string encode(const Heartbeat& heartbeat);
std::string encode(const Answer& answer);
Result<Heartbeat> decode_heartbeat(std::string_view frame);
// Returns the sequence of `frame` if it differs from `before` in the sequence only (as most
// heartbeats do), else nullopt.
std::optional<std::uint64_t> repeated(std::string_view before, std::string_view frame);
Result<Answer> decode_answer(std::string_view frame);

}  // namespace roll::protocol
