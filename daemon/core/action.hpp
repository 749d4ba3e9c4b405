// What we owe the world. Actions are read off State, never stored: after a crash the same State
// owes the same actions, so every one of them is idempotent by its attempt key.
#pragma once

#include <variant>

#include "daemon/core/state.hpp"

namespace roll::core {

struct StartMember {
    WorkerId worker;
    AttemptKey attempt;
    auto operator<=>(const StartMember&) const = default;
};
struct KeepMember {
    WorkerId worker;
    AttemptKey attempt;
    auto operator<=>(const KeepMember&) const = default;
};
struct StopMember {
    WorkerId worker;
    AttemptKey attempt;
    auto operator<=>(const StopMember&) const = default;
};

struct OrderAllocation {
    AllocationId allocation;
    auto operator<=>(const OrderAllocation&) const = default;
};
struct WatchAllocation {
    AllocationId allocation;
    auto operator<=>(const WatchAllocation&) const = default;
};
struct GiveBackAllocation {
    AllocationId allocation;
    auto operator<=>(const GiveBackAllocation&) const = default;
};

using Action = std::variant<StartMember, KeepMember, StopMember>;
// Towards Slurm, idempotent by the order's name.
using SlurmAction = std::variant<OrderAllocation, WatchAllocation, GiveBackAllocation>;

}  // namespace roll::core
