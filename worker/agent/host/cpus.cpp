#include "worker/agent/host/cpus.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <tuple>

#include "common/number.hpp"
#include "common/split.hpp"
#include "worker/agent/host/pilot.hpp"

namespace roll::agent {
namespace {

std::string first_line(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

// Returns a CPU's NUMA node, from the link "cpuN/nodeM"; 0 if there is none.
int numa_of(const std::filesystem::path& cpu) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(cpu, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("node")) continue;
        if (const auto node = parse_number<int>(std::string_view(name).substr(4))) return *node;
    }
    return 0;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
    std::vector<int> ids;
    for (const std::string& item : split_at(text, ',')) {
        const std::size_t dash = item.find('-');
        const auto first = parse_number<int>(item.substr(0, dash));
        const auto last =
            dash == std::string::npos ? first : parse_number<int>(item.substr(dash + 1));
        if (!first || !last) continue;
        for (int id = *first; id <= *last; ++id) ids.push_back(id);
    }
    return ids;
}

std::vector<Cpu> machine_cpus(const std::vector<int>& ids, const std::filesystem::path& sys) {
    std::vector<Cpu> cpus;
    for (const int id : ids) {
        const auto folder = sys / "devices/system/cpu" / ("cpu" + std::to_string(id));
        const auto siblings = parse_cpu_list(first_line(folder / "topology/thread_siblings_list"));
        cpus.push_back({id, siblings.empty() ? id : siblings.front(), numa_of(folder)});
    }
    return cpus;
}

int cpus_of_quota(std::string_view cpu_max) {
    const std::size_t space = cpu_max.find(' ');
    if (space == std::string_view::npos) return 0;
    const auto quota = parse_number<int>(cpu_max.substr(0, space));
    const auto period = parse_number<int>(cpu_max.substr(space + 1));
    if (!quota || !period || *period <= 0) return 0;
    return std::max((*quota + *period - 1) / *period, 1);
}

Grant granted_cpus(int usable, const std::vector<std::string>& environment) {
    const int on_node = parse_number<int>(value_of(environment, "SLURM_CPUS_ON_NODE")).value_or(0);
    const int of_task =
        parse_number<int>(value_of(environment, "SLURM_CPUS_PER_TASK")).value_or(on_node);
    const std::string binding = value_of(environment, "ROLL_CPU_BINDING");
    if (on_node < 1) return {usable, binding == "slots"};
    // This process also counts as bound if it may use all CPUs of the allocation on this node. With
    // --exclusive, these are all CPUs of the node, even if a task was granted fewer.
    const bool bound = usable == on_node || usable == of_task;
    const bool own = bound && binding != "none";
    return {own ? usable : std::clamp(of_task, 1, usable), own};
}

std::vector<int> numa_of_gpus(const std::vector<Cpu>& cpus,
                              const std::vector<std::vector<int>>& near_gpus) {
    std::vector<int> nodes;
    for (const std::vector<int>& near : near_gpus) {
        const auto cpu = std::ranges::find_if(
            cpus, [&](const Cpu& c) { return std::ranges::count(near, c.id) > 0; });
        if (cpu == cpus.end()) return {};
        nodes.push_back(cpu->numa);
    }
    return nodes;
}

std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int slots,
                                         const std::vector<std::vector<int>>& near_gpus) {
    const auto share = cpus.size() / static_cast<std::size_t>(slots);
    if (share == 0) return {};
    std::ranges::sort(cpus, {}, [](const Cpu& c) { return std::tuple(c.numa, c.core, c.id); });
    const auto near = [&](int slot) {
        const std::size_t gpu = static_cast<std::size_t>(slot) * near_gpus.size() / slots;
        return near_gpus.empty() ? std::vector<int>{} : near_gpus[gpu];
    };
    // order in which slots choose CPUs: first the slots whose GPU has known near CPUs
    std::vector<int> order(slots);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_partition(order, [&](int slot) { return !near(slot).empty(); });
    std::vector<std::vector<int>> shares(slots);
    for (const int slot : order) {
        const std::vector<int> wanted = near(slot);
        for (std::size_t i = 0; i < share; ++i) {
            auto cpu = std::ranges::find_if(
                cpus, [&](const Cpu& c) { return std::ranges::count(wanted, c.id) > 0; });
            if (cpu == cpus.end()) cpu = cpus.begin();
            shares[slot].push_back(cpu->id);
            cpus.erase(cpu);
        }
    }
    return shares;
}

}  // namespace roll::agent
