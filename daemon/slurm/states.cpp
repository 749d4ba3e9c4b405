#include "daemon/slurm/states.hpp"

#include <algorithm>
#include <array>

namespace roll::slurm {
namespace {

struct Known {
    std::string_view name;
    std::string_view compact;
    Phase phase;
};

// The job states in slurm.h of 22.05 to 26.05: first enum job_states, then the flags.
constexpr std::array kKnown = {
    Known{"PENDING", "PD", Phase::Pending},
    Known{"RUNNING", "R", Phase::Running},
    Known{"SUSPENDED", "S", Phase::Running},
    Known{"COMPLETED", "CD", Phase::Ended},
    Known{"CANCELLED", "CA", Phase::Ended},
    Known{"FAILED", "F", Phase::Ended},
    Known{"TIMEOUT", "TO", Phase::Ended},
    Known{"NODE_FAIL", "NF", Phase::Ended},
    Known{"PREEMPTED", "PR", Phase::Ended},
    Known{"BOOT_FAIL", "BF", Phase::Ended},
    Known{"DEADLINE", "DL", Phase::Ended},
    Known{"OUT_OF_MEMORY", "OOM", Phase::Ended},
    Known{"COMPLETING", "CG", Phase::Ending},
    Known{"CONFIGURING", "CF", Phase::Pending},
    Known{"EXPEDITING", "EXP", Phase::Pending},
    Known{"LAUNCH_FAILED", "LF", Phase::Pending},  // Slurm requeued and held the job
    Known{"POWER_UP_NODE", "PU", Phase::Pending},
    Known{"RECONFIG_FAIL", "RCF", Phase::Pending},  // Slurm requeued the job
    Known{"REQUEUED", "RQ", Phase::Pending},
    Known{"REQUEUE_FED", "RF", Phase::Pending},
    Known{"REQUEUE_HOLD", "RH", Phase::Pending},
    Known{"RESIZING", "RS", Phase::Running},
    Known{"RESV_DEL_HOLD", "RD", Phase::Pending},
    Known{"REVOKED", "RV", Phase::Ended},  // the job runs on another cluster of the federation
    Known{"SIGNALING", "SI", Phase::Running},
    Known{"SPECIAL_EXIT", "SE", Phase::Pending},
    Known{"STAGE_OUT", "SO", Phase::Ending},
    Known{"STOPPED", "ST", Phase::Running},
    Known{"UPDATE_DB", "UD", Phase::Running},
};

// Returns the base state: "CANCELLED" for "CANCELLED by 0" and "CANCELLED+", "RUNNING" for
// "RUNNING,SIGNALING".
std::string_view base_of(std::string_view state) {
    return state.substr(0, state.find_first_of(" ,+"));
}

}  // namespace

Phase phase_of(std::string_view state) {
    const std::string_view base = base_of(state);
    const auto known = std::ranges::find_if(
        kKnown, [&](const Known& k) { return k.name == base || k.compact == base; });
    return known == kKnown.end() ? Phase::Unknown : known->phase;
}

bool lost_its_node(std::string_view state) {
    const std::string_view base = base_of(state);
    return base == "NODE_FAIL" || base == "NF";
}

// Returns whether the node is down. The base state comes first; the flags after it are "+NAME" or
// single characters (22.05 to 26.05).
bool is_down(std::string_view node_state) {
    return node_state.substr(0, node_state.find_first_of("+*~#!%$@^-")) == "DOWN";
}

}  // namespace roll::slurm
