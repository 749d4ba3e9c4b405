#include "cli/commands/sections.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "common/check.hpp"

namespace roll::cli {
namespace {

// clang-format off
const std::array<std::pair<const char*, std::set<std::string>>, 8> kSections{{
    {"Roll on this machine", {"up", "down", "doctor", "web", "version", "completion"}},
    {"Access", {"keys", "secret", "token"}},
    {"Submit jobs", {"submit", "sweep", "resubmit", "resume", "open", "close"}},
    {"Watch jobs", {"jobs", "show", "explain", "logs", "events", "metrics", "top", "wait", "usage",
                    "report", "shell"}},
    {"Change jobs", {"cancel", "hold", "release", "requeue", "update", "checkpoint", "tell"}},
    {"Nodes and Slurm", {"nodes", "drain", "undrain", "alloc", "slurm", "compat"}},
    {"Before training", {"plan", "prove", "data"}},
    {"Models and checkpoints", {"convert", "merge", "inspect", "verify", "diff", "rename", "remove",
                                "families", "eval", "generate"}},
}};
// clang-format on

}  // namespace

std::string section_of(const std::string& command) {
    const auto found = std::ranges::find_if(
        kSections, [&](const auto& section) { return section.second.contains(command); });
    ROLL_CHECK(found != kSections.end());
    return found->first;
}

}  // namespace roll::cli
