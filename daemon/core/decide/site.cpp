#include <algorithm>

#include "daemon/core/decide/on.hpp"

namespace roll::core {

Result<Events> on(const State& s, const Started& in, Time now) {
    Events events{IncarnationRaised{std::max(s.incarnation + 1, in.at_least), now}};
    if (in.adopting && !s.adopting) events.push_back(AdoptingSet{true});
    return events;
}

Result<Events> on(const State& s, const Adopted&, Time) {
    return s.adopting ? Events{AdoptingSet{false}} : Events{};
}

Result<Events> on(const State& s, const SetPolicy& in, Time now) {
    if (s.policy == in.policy) return Events{};
    return Events{PolicySet{in.policy, now}};
}

Result<Events> on(const State& s, const SetSecrets& in, Time) {
    if (s.secrets == in.names) return Events{};
    return Events{SecretsKnown{in.names}};
}

// Stops or resumes dispatch. Resuming also ends the exclusion of machines.
Result<Events> on(const State& s, const StopDispatch& in, Time) {
    Events events;
    if (s.stopped != in.why)
        events.push_back(DispatchStopped{in.why.has_value(), in.why.value_or(""), in.by});
    if (in.why) return events;
    for (const auto& [name, machine] : s.machines)
        if (machine.excluded_until) events.push_back(MachineForgiven{name, in.by});
    return events;
}

Result<Events> on(const State&, const Tick& in, Time now) {
    if (in.stepped.count() == 0) return Events{};
    return Events{ClockStepped{in.stepped.count(), now}};
}

}  // namespace roll::core
