#include "daemon/core/decide/decide.hpp"

#include "daemon/core/decide/allocation.hpp"
#include "daemon/core/decide/attempt.hpp"
#include "daemon/core/decide/job.hpp"
#include "daemon/core/decide/site.hpp"
#include "daemon/core/decide/submit.hpp"
#include "daemon/core/decide/worker.hpp"

namespace roll::core {

Result<Events> decide(const State& state, const Input& input, Time now) {
    return std::visit([&](const auto& in) { return on(state, in, now); }, input);
}

}  // namespace roll::core
