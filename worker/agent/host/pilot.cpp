#include "worker/agent/host/pilot.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/split.hpp"

namespace roll::agent {
namespace {

// Returns whether CUDA accepts this entry of CUDA_VISIBLE_DEVICES: "3", "GPU-5a..." or "MIG-...".
// CUDA ignores the first entry that has another form ("-1", "NoDevFiles") and all entries after it.
bool is_device(const std::string& name) {
    if (name.starts_with("GPU-") || name.starts_with("MIG-")) return name.size() > 4;
    return !name.empty() &&
           std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); });
}

bool has(const std::vector<std::string>& environment, const std::string& name) {
    return std::ranges::any_of(
        environment, [&](const std::string& variable) { return variable.starts_with(name + "="); });
}

}  // namespace

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
    const std::string prefix = std::string(name) + "=";
    for (const std::string& variable : environment)
        if (variable.starts_with(prefix)) return variable.substr(prefix.size());
    return {};
}

std::optional<std::vector<std::string>> given_gpus(const std::vector<std::string>& environment) {
    static constexpr std::array<const char*, 3> kNames = {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS",
                                                          "SLURM_JOB_GPUS"};
    for (const char* name : kNames) {
        if (!has(environment, name)) continue;
        std::vector<std::string> gpus = split_at(value_of(environment, name), ',');
        gpus.erase(std::ranges::find_if_not(gpus, is_device), gpus.end());
        return gpus;
    }
    return std::nullopt;
}

std::string pilot_node(const std::vector<std::string>& environment, const std::string& host,
                       const std::string& key) {
    const std::string node = value_of(environment, "SLURMD_NODENAME");
    return (node.empty() ? host : node) + ".a" + key.substr(key.rfind('.') + 1);
}

std::string segment_of(const std::vector<std::string>& environment, const std::string& nvlink) {
    const std::string address = value_of(environment, "SLURM_TOPOLOGY_ADDR");
    const std::size_t dot = address.rfind('.');
    const std::string switches = dot == std::string::npos ? "" : address.substr(0, dot);
    return switches + (switches.empty() || nvlink.empty() ? "" : ".") + nvlink;
}

bool must_leave(const protocol::PilotNote& pilot, std::chrono::seconds margin,
                std::chrono::seconds now) {
    return pilot.ends_at > 0 && now.count() >= pilot.ends_at - margin.count();
}

}  // namespace roll::agent
