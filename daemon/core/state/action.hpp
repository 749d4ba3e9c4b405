// The actions that rolld must still carry out. They are derived from State and never stored. After
// a crash the same State yields the same actions again. Each action therefore names its attempt, so
// that rolld may carry out an action twice without harm.
#pragma once

#include <variant>

#include "daemon/core/state/state.hpp"

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
// Actions that use Slurm. Each action names its allocation request, so that rolld may carry it out
// twice without harm.
using SlurmAction = std::variant<OrderAllocation, WatchAllocation, GiveBackAllocation>;

}  // namespace roll::core
