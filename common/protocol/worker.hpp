// The protocol between rolld and a roll-worker. Messages contain whole states instead of changes.
// Every heartbeat lists all attempts that the worker runs. Every answer lists all attempts that the
// worker should run. Lost or repeated messages therefore do no harm.
//
// The worker sends a heartbeat every second, and at once after a change. rolld answers each
// heartbeat. The worker lists an attempt in Heartbeat::running until an answer does not list the
// attempt any more. The worker reports a checkpoint or an export until Answer::recorded lists it.
// docs/leases.md has the rules of leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/protocol/orders.hpp"
#include "common/protocol/running_attempt.hpp"
#include "common/protocol/version.hpp"

namespace roll::protocol {

// A part of the heartbeats of a roll-worker in a Slurm allocation that rolld requested.
struct PilotNote {
    std::string key;           // name that rolld gave the allocation
    std::string slurm_job;     // Slurm's job id
    std::int64_t ends_at = 0;  // end of the allocation in Unix seconds; 0 if unknown
    friend bool operator==(const PilotNote&, const PilotNote&) = default;
};

struct Heartbeat {
    int version = kVersion;  // the worker's protocol version
    std::string session;     // random id that roll-worker chooses at its start
    std::string node;
    std::uint64_t generation = 0;  // grows with each roll-worker started on the node; 0: unknown
    int slots = 0;
    int gpus = 0;
    std::uint64_t sequence = 0;
    bool bound_below_lease = true;  // this heartbeat renews the lease (leases rule 5)
    bool draining = false;          // the worker is stopping and takes no new attempts
    bool heard_recently = false;  // an answer of rolld arrived in the last seconds (leases rule 7)
    int beat_ms = 1000;           // maximum time between heartbeats in ms
    std::string segment{};        // network segment of the node; empty if unknown
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty if unknown
    // Resources that the worker offers to jobs with `memory` or `cpus`; 0: unknown
    std::int64_t memory = 0;  // memory in bytes
    int cpus = 0;
    std::string limits{};  // how the worker enforces the limits of jobs, for people
    // How the worker finds and ends all processes of an attempt: by a "cgroup", by a PID
    // "namespace" or by "marks" (worker/agent/process/wall.hpp).
    std::string wall{};
    // Identifies the worker's run directory and host; empty if unknown. A new roll-worker ends the
    // processes that an earlier roll-worker with the same `home` left behind. The new roll-worker
    // may therefore replace the earlier one at once.
    std::string home{};
    std::string process{};  // host and process id of the worker, for people
    std::optional<PilotNote> pilot{};
    std::vector<std::string> features{};  // features of the worker's release, from spec::features()
    std::vector<RunningAttempt> running{};
};

struct Answer {
    int version = kVersion;  // the worker's protocol version
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;  // sequence number of the heartbeat that this message answers
    // Silence of the worker that rolld had counted when heartbeat `sequence` arrived, in ticks of
    // the beacon's counter (docs/leases.md).
    std::int64_t counted = 0;
    // Value of the beacon's counter when the worker last renewed its lease. At that time, `counted`
    // was 0.
    std::uint64_t counter = 0;
    std::string beacon{};  // path of the beacon file; empty: no beacon
    // if not empty: why rolld does not accept the worker; the answer then has no orders
    std::string refused{};
    // only with `refused`: true if the reason may be temporary, so the worker keeps sending
    // heartbeats
    bool keep_asking = false;
    std::vector<AttemptKey> keep{};
    std::vector<StartOrder> start{};
    std::vector<StopOrder> stop{};
    std::vector<SaveOrder> save{};
    std::vector<TellOrder> tell{};
    std::vector<Recorded> recorded{};
    // attempts that the worker must kill because they are not current
    std::vector<AttemptKey> fenced{};
    friend bool operator==(const Answer&, const Answer&) = default;
};

std::string encode(const Heartbeat& heartbeat);
std::string encode(const Answer& answer);
Result<Heartbeat> decode_heartbeat(std::string_view frame);
// Returns the sequence number of `frame` if `frame` differs from `before` only in the sequence
// number, as most heartbeats do; else nullopt.
std::optional<std::uint64_t> repeated(std::string_view before, std::string_view frame);
Result<Answer> decode_answer(std::string_view frame);

}  // namespace roll::protocol
