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

using Action = std::variant<StartMember, KeepMember, StopMember>;

}  // namespace roll::core
