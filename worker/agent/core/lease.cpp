#include "worker/agent/core/lease.hpp"

#include <algorithm>

namespace roll::agent {

SilenceBound::SilenceBound(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                           std::uint64_t counter, const LeaseRules& rules)
    : silent_since_(sent - counted * rules.tick),
      incarnation_(incarnation),
      counter_(counter) {}

void SilenceBound::answered(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                            std::uint64_t counter, const LeaseRules& rules) {
    const SilenceBound answer(sent, counted, incarnation, counter, rules);
    silent_since_ = std::max(silent_since_, answer.silent_since_);
    incarnation_ = incarnation;
    counter_ = counter;
}

void SilenceBound::looked(const Look& look, const LeaseRules& rules) {
    if (look.incarnation < incarnation_) return;
    const bool newer = look.incarnation > incarnation_;
    // The previous incarnation (start) of rolld may have reassigned the job before that rolld
    // ended.
    if (newer && at(look.ended) >= rules.lease + rules.fence) return;
    if (newer) {  // count ticks from the start of the new incarnation
        incarnation_ = look.incarnation;
        counter_ = 0;
    }
    const auto ticks = static_cast<std::int64_t>(look.counter - std::min(look.counter, counter_));
    const Millis shown = (ticks + 1) * rules.tick + rules.volume_delay + (look.ended - look.began);
    const Instant since = look.ended - shown;
    silent_since_ = newer ? since : std::max(silent_since_, since);
    doubted(look, rules);
}

void SilenceBound::doubted(const Look& look, const LeaseRules& rules) {
    if (look.incarnation < incarnation_) return;
    const std::uint64_t from = look.incarnation > incarnation_ ? 0 : counter_;
    const auto ticks = static_cast<std::int64_t>(look.counter - std::min(look.counter, from));
    silent_since_ = std::min(silent_since_, look.ended - ticks * rules.tick);
}

}  // namespace roll::agent
