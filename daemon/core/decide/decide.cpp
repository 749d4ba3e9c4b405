#include "daemon/core/decide/decide.hpp"

#include "daemon/core/decide/find.hpp"
#include "daemon/core/decide/on.hpp"

namespace roll::core {

Result<Events> decide(const State& state, const Input& input, Time now) {
    return std::visit([&](const auto& in) { return on(state, in, now); }, input);
}

bool is_current(const State& state, WorkerId worker, const AttemptKey& key) {
    const Place* place = member(state, key, worker);
    return place != nullptr && !place->ended;
}

}  // namespace roll::core
