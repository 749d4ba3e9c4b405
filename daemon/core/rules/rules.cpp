#include "daemon/core/rules/rules.hpp"

#include <array>

#include "daemon/core/rules/place.hpp"

namespace roll::core {

// Returns the rules in the order in which a turn runs them. Rules that end jobs come first, so that
// the same turn can queue exports and start dependent jobs.
std::span<const Rule> rules() {
    static constexpr std::array kRules = {
        Rule{end_lost_members},     Rule{release_allocations}, Rule{hand_over_jobs},
        Rule{stop_broken_attempts}, Rule{settle_attempts},     Rule{exclude_machines},
        Rule{end_hopeless_jobs},    Rule{queue_exports},       Rule{end_closed_jobs},
        Rule{send_cron_jobs},       Rule{wake_jobs},           Rule{place_jobs},
        Rule{preempt_jobs},         Rule{match_supply},        Rule{settle_queues},
    };
    return kRules;
}

}  // namespace roll::core
