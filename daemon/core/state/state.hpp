// The current state of rolld: the result of the events in the ledger, and nothing else. Nothing in
// it comes from a clock, a socket or a random source.
//
// Containers are ordered (std::map), so that every iteration over State is deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/boxed.hpp"
#include "common/ids.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/job/policy.hpp"
#include "common/time.hpp"
#include "daemon/core/state/allocation.hpp"
#include "daemon/core/state/attempt.hpp"
#include "daemon/core/state/index.hpp"
#include "daemon/core/state/machine.hpp"
#include "daemon/core/state/secrets.hpp"
#include "daemon/core/state/use.hpp"

namespace roll::core {

// Queued -> Running -> Done | Failed | Cancelled; Running -> Queued on retry; Queued -> Cancelled.
enum class JobPhase { Queued, Running, Done, Failed, Cancelled };
// Names of the phases on the wire and in the ledger, in the order of JobPhase.
inline constexpr std::array kJobPhases = {"queued", "running", "done", "failed", "cancelled"};
constexpr bool is_over(JobPhase phase) { return phase >= JobPhase::Done; }

struct Job {
    spec::JobSpec spec;  // the job's id has replaced "{id}" in `output`
    std::string key;     // idempotency key that the client chose
    std::string user;
    Time submitted_at{};
    JobPhase phase = JobPhase::Queued;
    bool held = false;
    bool cancel_requested = false;
    bool halved = false;  // true if successive halving requested the cancellation
    std::string cancel_reason{};
    Time not_before{};    // end of the back-off: no placement before this time
    bool due = true;      // true once the begin time and the back-off have passed
    JobId array{};        // first job of the job's array; 0: no array
    bool closed = false;  // true if this group takes no more jobs
    JobId cron_last{};    // newest job that this cron job queued; 0: none
    int infra_failures = 0;
    int app_failures = 0;
    int timeouts = 0;
    int preemptions = 0;
    // step of the job's newest checkpoint at the end of the last attempt
    std::int64_t best_step = 0;
    std::int64_t stop_step = 0;      // step at which a request ends the training; 0: none
    int stalled = 0;                 // number of consecutive failures without a newer checkpoint
    std::set<std::string> avoid{};   // nodes that the job must not use, see node_to_avoid()
    std::set<std::string> labels{};  // labels added by retry.on_exit and retry.on_log
    std::uint64_t attempts = 0;      // number of attempts so far
    Boxed<Attempt> attempt{};        // current attempt; set exactly if phase is Running
    std::vector<EndedAttempt> past{};
    std::vector<Checkpoint> checkpoints{};    // checkpoints in ascending order of step
    std::vector<CheckpointExport> exports{};  // exported checkpoints in ascending order of step
    std::vector<std::int64_t> save_ms{};      // durations of the job's newest saves in ms
    std::string exported{};                   // directory of the HF export written by this job
    std::optional<JobId> export_job{};        // the convert job that exports this job's model
    std::optional<Time> ended_at{};
    int exit_code = 0;
    std::string reason{};  // one sentence: why the job failed or was cancelled
    friend bool operator==(const Job&, const Job&) = default;

    // Returns whether successive halving ended the job. Its sweep may still succeed.
    bool stopped_by_halving() const { return halved && phase == JobPhase::Cancelled; }

    // Returns the resources of the current attempt, or of variant 0 if there is none.
    const spec::Resources& resources() const { return spec.shape(attempt ? attempt->variant : 0); }
};

// A roll-worker process. After a restart of roll-worker, its new process is another Worker.
struct Worker {
    std::string node;     // host name, unique among live workers
    std::string session;  // random id of this incarnation, chosen at the start of the process
    int slots = 0;
    int gpus = 0;
    bool draining = false;  // true if the worker gets no new work
    // true if no heartbeat of the worker arrived lately, or since rolld started; a quiet worker
    // gets no new work
    bool quiet = false;
    Time joined_at{};
    AllocationId allocation{};    // allocation that the worker runs in; 0: none
    std::string segment{};        // network segment; empty: unknown
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: unknown
    // Resources that the worker offers to jobs that request `memory` or `cpus`. 0: unknown; the
    // worker gets no such job.
    std::int64_t memory = 0;  // memory in bytes
    int cpus = 0;
    // Run directory and host of the roll-worker; empty: unknown. A new roll-worker with the same
    // value is a restart of this roll-worker. A new roll-worker with another value is a second
    // roll-worker on the node.
    std::string home{};
    friend bool operator==(const Worker&, const Worker&) = default;
};

struct State {
    // The incarnation of rolld. The first event of each start increases it.
    std::uint64_t incarnation = 0;
    bool adopting = false;  // true for a while after a take-over or a restore; no job starts then
    // Reason that a user gave for stopping dispatch. While a reason is set, no job starts and no
    // allocation is requested.
    std::optional<std::string> stopped{};
    spec::Policy policy;
    SecretNames secrets{};
    std::map<JobId, Job> jobs;
    std::map<WorkerId, Worker> workers;
    // job ids by user and idempotency key
    std::map<std::string, std::map<std::string, JobId>> keys;
    // Sessions of the workers that joined on each node, oldest first. Only the newest session may
    // join again.
    std::map<std::string, std::vector<std::string>> sessions;
    // Generation of the newest roll-worker of each node.
    std::map<std::string, std::uint64_t> generations;
    std::map<std::string, AllocationQueue> queues;  // allocation queues by name
    std::map<AllocationId, Allocation> allocations;
    std::uint64_t next_allocation = 1;
    std::uint64_t next_job = 1;
    std::uint64_t next_worker = 1;
    std::map<User, Use> use;
    std::map<std::string, Machine> machines;  // machines with faults, by name
    Index index;                              // derived from the other fields
    friend bool operator==(const State&, const State&) = default;
};

}  // namespace roll::core
