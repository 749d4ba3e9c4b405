#include "worker/agent/host/host.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/hash.hpp"
#include "worker/agent/host/cpus.hpp"

namespace roll::agent {

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
    return name.data();
}

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);  // NOLINT: the macro's own casts
    }
    return cpus;
}

// Any cgroup (v2) above this process may set a quota of its own. The smallest quota counts.
int cores() {
    constexpr std::string_view kMark = "0::";
    int least = std::max(static_cast<int>(allowed_cpus().size()), 1);
    const std::string text = read_file("/proc/self/cgroup").value_or("");
    const std::size_t at = text.find(kMark);
    if (at == std::string::npos) return least;
    const std::size_t begin = at + kMark.size();
    std::filesystem::path group = text.substr(begin, text.find('\n', begin) - begin);
    for (; group.has_relative_path(); group = group.parent_path()) {
        const auto quota = read_file("/sys/fs/cgroup" + group.string() + "/cpu.max");
        const int most = quota ? cpus_of_quota(*quota) : 0;
        if (most > 0) least = std::min(least, most);
    }
    return least;
}

std::string draw_session() {
    std::array<std::uint64_t, 2> bits{};
    ROLL_CHECK(::getrandom(bits.data(), sizeof bits, 0) == sizeof bits);
    return to_hex(bits[0]) + to_hex(bits[1]);
}

}  // namespace roll::agent
