// Applies events of rolld as a whole: its start, its policy, the names of the secrets, the users'
// resource use, steps of the clock, and the stop of dispatch.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

void on(State& s, const IncarnationRaised& e);
void on(State& s, const AdoptingSet& e);
void on(State& s, const PolicySet& e);
void on(State& s, const SecretsKnown& e);
void on(State& s, const ClockStepped& e);
void on(State& s, const UseCarried& e);
void on(State& s, const DispatchStopped& e);

}  // namespace roll::core
