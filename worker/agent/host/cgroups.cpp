#include "worker/agent/host/cgroups.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "common/files.hpp"
#include "common/number.hpp"
#include "common/split.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

// Returns whether `list`, whose items are separated by commas, contains `item`.
bool lists(const std::string& list, std::string_view item) {
    const auto items = split_at(list, ',');
    return std::ranges::find(items, item) != items.end();
}

// Returns the path of this process's cgroup in a hierarchy: the v1 hierarchy of `controller`, or
// the v2 hierarchy if `controller` is empty. Returns an empty string if there is no such hierarchy.
// Reads the lines "ID:CONTROLLERS:PATH" of the file `proc`/cgroup.
std::string path_in(std::string_view controller, const fs::path& proc) {
    std::istringstream groups(read_file(proc / "cgroup").value_or(""));
    for (std::string line; std::getline(groups, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool unified = controllers.empty() && line.starts_with("0:");
        if (controller.empty() ? unified : lists(controllers, controller))
            return line.substr(second + 1);
    }
    return {};
}

// Returns the number after `key` in lines "KEY NUMBER" of a file; nullopt if there is no such line.
std::optional<std::int64_t> number_after(const fs::path& file, std::string_view key) {
    std::istringstream lines(read_file(file).value_or(""));
    for (std::string word; lines >> word;) {
        std::int64_t number = 0;
        if (word == key && lines >> number) return number;
    }
    return std::nullopt;
}

}  // namespace

// A line of mountinfo: "ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS [FIELD...] - TYPE SOURCE
// OPTIONS".
std::vector<fs::path> own_cgroups(std::string_view controller, const fs::path& proc) {
    const std::string own = path_in(controller, proc);
    std::vector<fs::path> found;
    if (own.empty() || own.find("/..") != std::string::npos) return found;
    std::istringstream mounts(read_file(proc / "mountinfo").value_or(""));
    for (std::string line; std::getline(mounts, line);) {
        const std::size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream words(line.substr(0, dash)), more(line.substr(dash + 3));
        std::string skipped, root, place, type, options;
        words >> skipped >> skipped >> skipped >> root >> place;
        more >> type >> skipped >> options;
        if (type != (controller.empty() ? "cgroup2" : "cgroup")) continue;
        if (!controller.empty() && !lists(options, controller)) continue;
        if (root == "/") root.clear();
        if (own.starts_with(root)) found.emplace_back(place + own.substr(root.size()));
    }
    return found;
}

std::int64_t usable_memory() {
    constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
    std::int64_t least = kUnknown;
    if (const auto total = number_after("/proc/meminfo", "MemTotal:")) least = *total * 1024;
    // memory.stat of v1 has the smallest limit of the cgroup and of all cgroups above it.
    for (const fs::path& group : own_cgroups("memory"))
        if (const auto limit = number_after(group / "memory.stat", "hierarchical_memory_limit"))
            least = std::min(least, *limit);
    for (fs::path group : own_cgroups()) {
        for (std::error_code error; fs::exists(group / "cgroup.procs", error);
             group = group.parent_path()) {
            const auto text = read_file(group / "memory.max").value_or("");
            const auto limit = parse_number<std::int64_t>(text.substr(0, text.find('\n')));
            if (limit) least = std::min(least, *limit);
        }
    }
    return least == kUnknown ? 0 : least;
}

}  // namespace roll::agent
