// Decides on each kind of input (decide.hpp). Each .cpp file of this folder is named after the
// subject of its functions.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

// Inputs about rolld as a whole: its start, policy, secrets and clock.
Result<Events> on(const State& s, const Started& in, Time now);
Result<Events> on(const State& s, const Adopted& in, Time now);
Result<Events> on(const State& s, const SetPolicy& in, Time now);
Result<Events> on(const State& s, const SetSecrets& in, Time now);
Result<Events> on(const State& s, const StopDispatch& in, Time now);
Result<Events> on(const State& s, const Tick& in, Time now);

// Returns the jobs that a submission makes, or why it is refused.
Result<Events> on(const State& s, const Submit& in, Time now);

// Inputs about jobs that have been submitted.
Result<Events> on(const State& s, const Cancel& in, Time now);
Result<Events> on(const State& s, const Close& in, Time now);
Result<Events> on(const State& s, const Hold& in, Time now);
Result<Events> on(const State& s, const Requeue& in, Time now);
Result<Events> on(const State& s, const SetPriority& in, Time now);
Result<Events> on(const State& s, const SetBegin& in, Time now);
Result<Events> on(const State& s, const AskCheckpoint& in, Time now);
Result<Events> on(const State& s, const AskTraining& in, Time now);

// Inputs about attempts, their members, checkpoints and exports.
Result<Events> on(const State& s, const MemberStarted& in, Time now);
Result<Events> on(const State& s, const MemberExited& in, Time now);
Result<Events> on(const State& s, const MemberUnknown& in, Time now);
Result<Events> on(const State& s, const CheckpointWritten& in, Time now);
Result<Events> on(const State& s, const CheckpointDeleted& in, Time now);
Result<Events> on(const State& s, const RequestDone& in, Time now);
Result<Events> on(const State& s, const ExportWritten& in, Time now);

// Inputs about workers.
Result<Events> on(const State& s, const WorkerHeard& in, Time now);
Result<Events> on(const State& s, const Drain& in, Time now);
Result<Events> on(const State& s, const WorkerHello& in, Time now);
Result<Events> on(const State& s, const WorkerGone& in, Time now);
Result<Events> on(const State& s, const NodeDown& in, Time now);
Result<Events> on(const State& s, const StaleClaim& in, Time now);

// Inputs about allocation queues and Slurm allocations.
Result<Events> on(const State& s, const AddQueue& in, Time now);
Result<Events> on(const State& s, const PauseQueue& in, Time now);
Result<Events> on(const State& s, const RemoveQueue& in, Time now);
Result<Events> on(const State& s, const CloseAllocation& in, Time now);
Result<Events> on(const State& s, const CancelAllocation& in, Time now);
Result<Events> on(const State& s, const OrderAnswered& in, Time now);
Result<Events> on(const State& s, const OrderSeen& in, Time now);
Result<Events> on(const State& s, const OrderMissing& in, Time now);

// Returns the events for the allocation that a new worker names in its first heartbeat. Fails with
// Refused if rolld did not request that allocation.
Result<Events> welcome_pilot(const State& s, const Pilot& pilot, Time now);

}  // namespace roll::core
