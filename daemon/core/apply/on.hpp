// Applies each kind of event to State (apply.hpp). Each .cpp file of this folder is named after the
// subject of its functions.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Events of rolld as a whole: its start, its policy, the names of the secrets, the users'
// resource use, steps of the clock, and the stop of dispatch.
void on(State& s, const IncarnationRaised& e);
void on(State& s, const AdoptingSet& e);
void on(State& s, const PolicySet& e);
void on(State& s, const SecretsKnown& e);
void on(State& s, const ClockStepped& e);
void on(State& s, const UseCarried& e);
void on(State& s, const DispatchStopped& e);

// Events of jobs.
void on(State& s, const JobSubmitted& e);
void on(State& s, const ExportQueued& e);
void on(State& s, const JobHeld& e);
void on(State& s, const JobClosed& e);
void on(State& s, const JobPriorityChanged& e);
void on(State& s, const JobCancelRequested& e);
void on(State& s, const JobRequeued& e);
void on(State& s, const JobBeginChanged& e);
void on(State& s, const JobDue& e);
void on(State& s, const JobEnded& e);

// Events of attempts, their members, checkpoints and exports.
void on(State& s, const AttemptPlaced& e);
void on(State& s, const AttemptStarted& e);
void on(State& s, const AttemptStopping& e);
void on(State& s, const MemberEnded& e);
void on(State& s, const MemberUp& e);
void on(State& s, const AttemptFenced& e);
void on(State& s, const AttemptEnded& e);
void on(State& s, const CheckpointAsked& e);
void on(State& s, const TrainingAsked& e);
void on(State& s, const TrainingAnswered& e);
void on(State& s, const CheckpointRecorded& e);
void on(State& s, const CheckpointPruned& e);
void on(State& s, const ExportRecorded& e);

// Events of workers and of machines with faults.
void on(State& s, const WorkerJoined& e);
void on(State& s, const WorkerDrained& e);
void on(State& s, const WorkerQuiet& e);
void on(State& s, const WorkerLost& e);
void on(State& s, const MachineExcluded& e);
void on(State& s, const MachineForgiven& e);

// Events of allocation queues and of Slurm allocations.
void on(State& s, const QueueAdded& e);
void on(State& s, const QueuePaused& e);
void on(State& s, const QueueRemoving& e);
void on(State& s, const QueueRemoved& e);
void on(State& s, const AllocationOrdered& e);
void on(State& s, const AllocationAccepted& e);
void on(State& s, const AllocationGranted& e);
void on(State& s, const AllocationReturned& e);
void on(State& s, const AllocationClosed& e);
void on(State& s, const AllocationReleasing& e);
void on(State& s, const AllocationEnded& e);
void on(State& s, const PilotJoined& e);

// Records that work on the worker has ended. The worker's allocation counts as idle from `at` on if
// no other work runs in it.
void note_used(State& s, WorkerId worker, Time at);

}  // namespace roll::core
