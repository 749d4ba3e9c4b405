// Limits of the memory and the CPUs of attempts, by the controllers of cgroup v2 or v1. Where
// roll-worker may use neither, an attempt's guard watches its memory (memory_watch.hpp), and its
// CPUs are not limited.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"

namespace roll::agent {

struct AttemptLimits {
    std::int64_t memory = 0;  // bytes; 0: no limit
    int cpus = 0;             // 0: no limit
};

// The cgroups that limit one attempt. Its programs enter them before they are executed.
struct LimitCgroups {
    std::string memory{};  // empty: no cgroup limits the memory
    std::string cpu{};
};

class Limiter {
  public:
    // Makes a limiter that enforces nothing.
    Limiter() = default;

    // Finds the controllers that roll-worker may use. `wall` is the cgroup v2 of its attempts, or
    // empty; `session` names the cgroups of v1. In cgroup v2, only a cgroup without processes can
    // limit the cgroups below it, so roll-worker may have to move to a cgroup of its own; call this
    // before any child is started. `proc` has the files cgroup and mountinfo of this process.
    static Limiter choose(const std::filesystem::path& wall, const std::string& session,
                          const std::filesystem::path& proc = "/proc/self");

    // Returns what is enforced, for people: "cgroup v2", "cgroup v1" or "watched, not enforced";
    // for a host without the controller of CPUs with ", cpus not enforced".
    std::string text() const;
    // Returns the cgroups of v1 that hold the cgroups of this roll-worker's attempts.
    std::vector<std::string> directories() const;

    // Makes the cgroups of an attempt, with its limits. `wall` is its cgroup v2, or empty.
    Result<LimitCgroups> enclose(const AttemptKey& key, const AttemptLimits& limits,
                                 const std::string& wall) const;
    // Removes the cgroups of v1 of an attempt that has ended.
    void open(const AttemptKey& key) const;

  private:
    // Version of the hierarchy with the controller; 0: there is none.
    int memory_ = 0;
    int cpu_ = 0;
    std::filesystem::path memory_directory_{};  // v1 only
    std::filesystem::path cpu_directory_{};
};

// Returns how often the kernel has killed a process of the cgroup because of its memory limit.
std::int64_t kills_for_memory(const std::filesystem::path& cgroup);
// Returns the most memory that the cgroup used, in bytes, with its part of the page cache.
std::int64_t peak_memory(const std::filesystem::path& cgroup);
// Returns the memory that the cgroup uses now.
std::int64_t used_memory(const std::filesystem::path& cgroup);

}  // namespace roll::agent
