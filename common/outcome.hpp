// The outcome of an attempt, and the outcomes' names on the wire and in the ledger.
#pragma once

#include <array>

#include "common/enum_name.hpp"

namespace roll {

// The outcome of an attempt.
//
// Done: the program succeeded. App: the program failed, or the output cannot be written. Infra: a
// worker was lost, or a signal that Roll did not send ended the program. Invalid: the input can
// never work. Yielded: the attempt stopped at a step boundary after a checkpoint, to be continued.
// Stopped: the attempt ended on request.
enum class Outcome { Done, App, Infra, Invalid, Yielded, Stopped };

// Names of the outcomes, in the order of Outcome.
inline constexpr std::array kOutcomes = {"done", "app", "infra", "invalid", "yielded", "stopped"};

constexpr const char* name_of(Outcome outcome) { return name_in(kOutcomes, outcome); }

}  // namespace roll
