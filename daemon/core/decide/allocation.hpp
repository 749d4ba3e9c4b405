// Decides on inputs about allocation queues and Slurm allocations.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

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
