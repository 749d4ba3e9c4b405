// The outcome of an attempt, and the outcomes' names on the wire and in the ledger.
#pragma once

#include <array>

namespace roll {

// Outcome of an attempt.
//
// Infra: a lost worker or a signal that Roll did not send. App: the program failed, or the output
// cannot be written.
// Invalid: the input can never work. Yielded: stopped at a step boundary after a checkpoint, to be
// continued. Stopped: ended on request.
enum class Outcome { Done, App, Infra, Invalid, Yielded, Stopped };

// Names of the outcomes, in the order of Outcome.
inline constexpr std::array kOutcomes = {"done", "app", "infra", "invalid", "yielded", "stopped"};

}  // namespace roll
