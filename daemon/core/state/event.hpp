// Events: decisions of the core. They are the ledger's rows and the only way to change State.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/alternative.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::core {

// In every event, `by` is the user who requested the event. It is empty if no user requested the
// event, or if an older rolld did not record the user.
// clang-format off
struct IncarnationRaised {                                              // rolld started, or a backup was restored
    std::uint64_t incarnation = 0; Time at{};
    // Set by a restore: a number that is higher than the numbers of all earlier jobs, including the
    // jobs that the backup lacks. 0: no restore.
    std::uint64_t next_job = 0;
};
struct JobSubmitted { JobId job; std::string key; std::string user; spec::JobSpec spec; Time at{}; JobId array{};
    JobId cron{};  // the cron job that queued this job; 0: none
};
struct ExportQueued { JobId parent; JobId job; };                        // `job`, which was submitted just before, exports `parent`
struct JobHeld { JobId job; bool held = true; std::string by{}; };
struct JobPriorityChanged { JobId job; int priority = 0; std::string by{}; };
struct JobBeginChanged { JobId job; Time begin{}; Time at{}; std::string by{}; };
struct JobCancelRequested { JobId job; std::string reason; Time at{}; std::string by{};
    bool halved = false;  // true if successive halving requested the cancellation
};
struct JobRequeued {
    JobId job; Time not_before{}; int infra_failures = 0; int app_failures = 0; int timeouts = 0; int preemptions = 0;
    std::string avoid{};  // node that the job avoids from now on
};
struct JobClosed { JobId job; std::string by{}; };                                          // the job group takes no more jobs
struct PolicySet { spec::Policy policy; Time at{}; };
struct SecretsKnown { SecretNames names; };                               // names of all existing secrets
struct JobDue { JobId job; };                                             // the job's begin time or back-off has passed
struct JobEnded { JobId job; JobPhase phase = JobPhase::Done; int exit_code = 0; std::string reason; Time at{}; };
struct AttemptPlaced { AttemptKey attempt; std::vector<Place> places; Time at{}; int variant = 0; };
struct AttemptStarted { AttemptKey attempt; Time at{}; };                 // every member has started its ranks
struct AttemptStopping { AttemptKey attempt; std::string reason; bool preempted = false; };
struct MemberEnded { AttemptKey attempt; WorkerId worker; Outcome outcome = Outcome::Done; int exit_code = 0; std::string reason;
    std::vector<int> matched{};  // indices of the retry.on_log patterns that the member's log matched
    Usage usage{};
};
struct AttemptEnded { AttemptKey attempt; Outcome outcome = Outcome::Done; int exit_code = 0; std::string reason; Time at{}; };
// The worker ran an attempt that was not current.
struct AttemptFenced { AttemptKey attempt; WorkerId worker; std::string node; Time at{}; };
// A user requested a checkpoint of a running attempt.
struct CheckpointAsked { AttemptKey attempt; std::uint64_t number = 0; std::string by{}; };
// TrainingAsked: a user made a request to the training of a running attempt. TrainingAnswered: the
// ranks have carried it out.
struct TrainingAsked { AttemptKey attempt; TrainingRequest request; std::string by{}; };
struct TrainingAnswered { AttemptKey attempt; RequestAnswer answer; Time at{}; };
struct CheckpointRecorded { AttemptKey attempt; std::int64_t step = 0; std::string directory; Time at{};
    std::uint64_t asked = 0; std::int64_t save_ms = 0;
};
struct CheckpointPruned { JobId job; std::int64_t step = 0; Token token; };  // the retention rules deleted the checkpoint
// The fields have the same meaning as in ExportWritten.
struct ExportRecorded { AttemptKey attempt; std::string directory; Time at{}; std::int64_t step = 0;
    std::int64_t oldest = 0;
};
struct WorkerJoined {
    WorkerId worker; std::string node; std::string session; int slots = 0; int gpus = 0; Time at{};
    std::uint64_t generation = 0;  // grows with each roll-worker started on the node; 0: unknown
    std::string segment{}; std::vector<int> gpu_numa{};
    std::int64_t memory = 0; int cpus = 0;
    std::string home{};  // run directory and host of the roll-worker; empty: unknown
};
// While `stopped`, no job starts and no allocation is requested.
struct DispatchStopped { bool stopped = true; std::string why; std::string by{}; };
// These three events also hold the worker's node, because State forgets a worker that is lost.
// Events of older ledgers have no node. `quiet` is false if heartbeats arrive again.
struct WorkerDrained { WorkerId worker; bool draining = true; std::string by{}; std::string node{}; };
struct WorkerQuiet { WorkerId worker; bool quiet = true; std::string node{}; };
struct WorkerLost { WorkerId worker; std::string reason; Time at{}; std::string node{}; };
struct AdoptingSet { bool adopting = true; };  // while set, no job starts, because an older rolld may have started the same job
struct MachineExcluded { std::string machine; Time until{}; std::string reason; Time at{}; };
struct MachineForgiven { std::string machine; std::string by{}; };                          // the exclusion expired, or a user ended it
struct MemberUp { AttemptKey attempt; WorkerId worker; };
struct QueueAdded { spec::PilotQueue queue; Time at{}; std::string by{}; };
struct QueuePaused { std::string queue; bool paused = true; std::string reason; std::string by{}; };
struct QueueRemoving { std::string queue; std::string by{}; };
struct QueueRemoved { std::string queue; };
struct AllocationOrdered { AllocationId allocation; std::string queue; std::uint64_t incarnation = 0; Time at{}; };
struct AllocationAccepted { AllocationId allocation; std::string slurm_job; };
struct AllocationGranted { AllocationId allocation; Time at{}; Time ends_at{}; };   // Slurm granted the allocation, or moved its end
struct AllocationReturned { AllocationId allocation; };                             // Slurm requeued the job of this allocation
struct AllocationClosed { AllocationId allocation; std::string by{}; };             // no job starts in the allocation any more
struct AllocationReleasing { AllocationId allocation; bool failed = false; std::string reason; };
struct AllocationEnded { AllocationId allocation; bool failed = false; std::string reason; Time at{}; };
struct PilotJoined { WorkerId worker; AllocationId allocation; Time at{}; };       // the worker that has just joined is in this allocation
struct ClockStepped { std::int64_t by_ms = 0; Time at{}; };                         // the wall clock was moved by `by_ms`
struct UseCarried {  // resource use, including the use of jobs removed from the ledger
    std::string account; std::string user; std::int64_t gpu_ms = 0; std::int64_t decayed = 0; Time at{};
};
// clang-format on

using AnyEvent = std::variant<
    IncarnationRaised, JobSubmitted, ExportQueued, JobHeld, JobPriorityChanged, JobCancelRequested,
    JobRequeued, JobEnded, AttemptPlaced, AttemptStarted, AttemptStopping, MemberEnded,
    AttemptEnded, CheckpointRecorded, CheckpointPruned, ExportRecorded, WorkerJoined, WorkerDrained,
    WorkerLost, MemberUp, JobDue, JobBeginChanged, QueueAdded, QueuePaused, QueueRemoving,
    QueueRemoved, AllocationOrdered, AllocationAccepted, AllocationGranted, AllocationReturned,
    AllocationReleasing, AllocationEnded, PilotJoined, PolicySet, CheckpointAsked, MachineExcluded,
    MachineForgiven, UseCarried, WorkerQuiet, AdoptingSet, DispatchStopped, JobClosed, SecretsKnown,
    AttemptFenced, ClockStepped, TrainingAsked, TrainingAnswered, AllocationClosed>;

// One of the events above. Its copies, moves and destruction are compiled once, in event.cpp.
// Otherwise, every file would compile them for each alternative, and tests would take a third
// longer to compile.
struct Event : AnyEvent {
    template <class T>
    requires AlternativeOf<std::remove_cvref_t<T>, AnyEvent> Event(T&& event)
        : AnyEvent(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(event)) {}
    Event(const Event&);
    Event(Event&&) noexcept;
    Event& operator=(const Event&);
    Event& operator=(Event&&) noexcept;
    ~Event();
};
using Events = std::vector<Event>;

}  // namespace roll::core
