// What is true now. State is exactly the fold of apply() over the ledger's events: nothing here is
// read from a clock, a socket or a random source.
//
// Containers are ordered (std::map) so that every walk over State is deterministic.
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
    Time not_before{};    // back-off: not placed earlier than this
    bool due = true;      // begin time and back-off are over
    JobId array{};        // the first job of its array; 0: it is in none
    bool closed = false;  // of an open job: nothing more is put into it
    JobId cron_last{};    // the newest job that came of its cron times; 0: none
    int infra_failures = 0;
    int app_failures = 0;
    int timeouts = 0;
    int preemptions = 0;
    std::int64_t best_step = 0;        // newest checkpoint when an attempt last ended
    int stalled = 0;                   // bad ends in a row without a newer one
    std::set<std::string> avoid{};     // nodes: by retry.on_exit, or it failed there twice
    std::set<std::string> labels{};    // by retry.on_exit and on_log
    std::uint64_t attempts = 0;        // attempt numbers given so far
    std::optional<Attempt> attempt{};  // the current one; set iff phase is Running
    std::vector<EndedAttempt> past{};
    std::vector<Checkpoint> checkpoints{};  // ascending by step, newest last
    std::vector<std::int64_t> save_ms{};    // what its newest saves took
    std::string exported{};                 // directory of the HF export that this job wrote
    std::optional<JobId> export_job{};      // the convert job that follows this one
    std::optional<Time> ended_at{};
    int exit_code = 0;
    std::string reason{};  // why it failed or was cancelled, one sentence
    friend bool operator==(const Job&, const Job&) = default;

    // What the current attempt was given; without one: what it asks for first.
    const spec::Resources& resources() const { return spec.shape(attempt ? attempt->variant : 0); }
};

// One incarnation of a roll-worker process.
struct Worker {
    std::string node;     // host name, unique among live workers
    std::string session;  // drawn by the process at its start; names the incarnation
    int slots = 0;
    int gpus = 0;
    bool draining = false;  // gets nothing new
    bool quiet = false;     // not heard just now, or not since rolld started: gets nothing new
    Time joined_at{};
    AllocationId allocation{};    // that it came with; 0: none
    std::string segment{};        // of the network; empty: not known
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: not known
    friend bool operator==(const Worker&, const Worker&) = default;
};

struct State {
    std::uint64_t incarnation = 0;         // of rolld; raised at each start before anything else
    bool adopting = false;                 // after a take-over or a restore: nothing is started
    std::optional<std::string> stopped{};  // a user's word on why nothing new is started or ordered
    spec::Policy policy;
    SecretNames secrets{};
    std::map<JobId, Job> jobs;
    std::map<WorkerId, Worker> workers;
    std::map<std::string, std::map<std::string, JobId>> keys;  // user -> idempotency key -> job
    // node -> the sessions that joined there, oldest first. Only the newest may come (back).
    std::map<std::string, std::vector<std::string>> sessions;
    std::map<std::string, std::uint64_t> generations;  // node -> of the newest roll-worker there
    std::map<std::string, AllocationQueue> queues;     // by name
    std::map<AllocationId, Allocation> allocations;
    std::uint64_t next_allocation = 1;
    std::uint64_t next_job = 1;
    std::uint64_t next_worker = 1;
    std::map<User, Use> use;
    std::map<std::string, Machine> machines;  // that had faults, by name
    Index index;                              // follows from the rest
    friend bool operator==(const State&, const State&) = default;
};

}  // namespace roll::core
