// The current state: exactly the result of applying the ledger's events. Nothing here comes from
// a clock, a socket or a random source.
//
// Containers are ordered (std::map), so that every iteration over State is deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job.hpp"
#include "common/spec/policy.hpp"
#include "common/time.hpp"
#include "daemon/core/allocation.hpp"
#include "daemon/core/attempt.hpp"
#include "daemon/core/index.hpp"
#include "daemon/core/machines.hpp"
#include "daemon/core/secrets.hpp"
#include "daemon/core/use.hpp"

namespace roll::core {

// Queued -> Running -> Done | Failed | Cancelled; Running -> Queued on retry; Queued -> Cancelled.
enum class JobPhase { Queued, Running, Done, Failed, Cancelled };
constexpr bool is_over(JobPhase phase) { return phase >= JobPhase::Done; }

struct Job {
    spec::JobSpec spec;  // `output` resolved: no "{id}"
    std::string key;     // the client's idempotency key
    std::string user;
    Time submitted_at{};
    JobPhase phase = JobPhase::Queued;
    bool held = false;
    bool cancel_requested = false;
    std::string cancel_reason{};
    Time not_before{};    // back-off: no placement before this time
    bool due = true;      // begin time and back-off have passed
    JobId array{};        // first job of its array; 0: not in an array
    bool closed = false;  // true for a group that takes no more jobs
    JobId cron_last{};    // newest job of its cron times; 0: none
    int infra_failures = 0;
    int app_failures = 0;
    int timeouts = 0;
    int preemptions = 0;
    std::int64_t best_step = 0;        // step of the newest checkpoint when the last attempt ended
    int stalled = 0;                   // consecutive failures without a newer checkpoint
    std::set<std::string> avoid{};     // nodes excluded by retry.on_exit or after two failures
    std::set<std::string> labels{};    // from retry.on_exit and on_log
    std::uint64_t attempts = 0;        // number of attempts so far
    std::optional<Attempt> attempt{};  // the current one; set iff phase is Running
    std::vector<EndedAttempt> past{};
    std::vector<Checkpoint> checkpoints{};  // ascending by step, newest last
    std::vector<std::int64_t> save_ms{};    // durations of its newest saves in ms
    std::string exported{};                 // directory of the HF export written by this job
    std::optional<JobId> export_job{};      // the convert job that exports this one
    std::optional<Time> ended_at{};
    int exit_code = 0;
    std::string reason{};  // one sentence: why it failed or was cancelled
    friend bool operator==(const Job&, const Job&) = default;

    // Returns the resources of the current attempt; without one, of the first variant.
    const spec::Resources& resources() const { return spec.shape(attempt ? attempt->variant : 0); }
};

// One incarnation of a roll-worker process.
struct Worker {
    std::string node;     // host name, unique among live workers
    std::string session;  // drawn at process start; names the incarnation
    int slots = 0;
    int gpus = 0;
    bool draining = false;  // gets no new work
    bool quiet = false;     // not heard now, or not yet since rolld's start; gets no new work
    Time joined_at{};
    AllocationId allocation{};    // its allocation; 0: none
    std::string segment{};        // network segment; empty: unknown
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: unknown
    friend bool operator==(const Worker&, const Worker&) = default;
};

struct State {
    // Incarnation of rolld; raised before anything else at each start.
    std::uint64_t incarnation = 0;
    bool adopting = false;                 // after a take-over or a restore: nothing is started
    std::optional<std::string> stopped{};  // a user's reason why nothing new is started or ordered
    spec::Policy policy;
    SecretNames secrets{};
    std::map<JobId, Job> jobs;
    std::map<WorkerId, Worker> workers;
    std::map<std::string, std::map<std::string, JobId>> keys;  // user -> idempotency key -> job
    // Node -> the sessions of workers that joined there, oldest first. Only the newest may rejoin.
    std::map<std::string, std::vector<std::string>> sessions;
    std::map<std::string, std::uint64_t> generations;  // node -> newest roll-worker's generation
    std::map<std::string, AllocationQueue> queues;     // by name
    std::map<AllocationId, Allocation> allocations;
    std::uint64_t next_allocation = 1;
    std::uint64_t next_job = 1;
    std::uint64_t next_worker = 1;
    std::map<User, Use> use;
    std::map<std::string, Machine> machines;  // machines with faults, by name
    Index index;                              // derived from the rest
    friend bool operator==(const State&, const State&) = default;
};

}  // namespace roll::core
