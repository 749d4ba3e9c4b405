// Limits the memory and the CPUs of attempts with the controllers of cgroup v2 or v1. If
// roll-worker may use neither, the guard of an attempt watches the attempt's memory
// (memory_watch.hpp), and the CPUs are not limited.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"

namespace roll::agent {

struct AttemptLimits {
    std::int64_t memory = 0;  // memory in bytes; 0: no limit
    int cpus = 0;             // number of CPUs; 0: no limit
};

// The cgroups that limit one attempt. Its programs enter them before they are executed.
struct LimitCgroups {
    std::string memory{};  // cgroup that limits the memory; empty: none
    std::string cpu{};
};

class Limiter {
  public:
    // Makes a limiter that enforces nothing.
    Limiter() = default;

    // Finds the controllers that roll-worker may use. `wall` is the cgroup v2 of this roll-worker's
    // attempts, or empty; `session` names the cgroups of v1. `proc` is the directory with the files
    // cgroup and mountinfo of this process.
    //
    // In cgroup v2, a cgroup can limit the cgroups below it only if it has no processes.
    // roll-worker may therefore move to a cgroup of its own. Call this function before any child is
    // started.
    static Limiter choose(const std::filesystem::path& wall, const std::string& session,
                          const std::filesystem::path& proc = "/proc/self");

    // Returns a description of how limits are enforced, such as "cgroup v2", "cgroup v1, cpus not
    // enforced" or "watched, not enforced".
    std::string text() const;
    // Returns the v1 cgroups below which this roll-worker makes its attempts' cgroups.
    std::vector<std::string> directories() const;

    // Makes the cgroups of an attempt, with its limits. `wall` is the attempt's cgroup v2, or
    // empty.
    Result<LimitCgroups> enclose(const AttemptKey& key, const AttemptLimits& limits,
                                 const std::string& wall) const;
    // Undoes enclose(): removes the v1 cgroups of an attempt that has ended.
    void open(const AttemptKey& key) const;

  private:
    // Cgroup versions (1 or 2) of the controllers of memory and of CPUs; 0: no controller is used.
    int memory_ = 0;
    int cpu_ = 0;
    // The cgroups that hold the attempts' memory cgroups and CPU cgroups; only in v1.
    std::filesystem::path memory_directory_{};
    std::filesystem::path cpu_directory_{};
};

// Returns how often the kernel has killed a process of the cgroup because of its memory limit.
std::int64_t kills_for_memory(const std::filesystem::path& cgroup);
// Returns the peak memory of the cgroup in bytes, including its part of the page cache.
std::int64_t peak_memory(const std::filesystem::path& cgroup);
// Returns the memory that the cgroup uses now, in bytes.
std::int64_t used_memory(const std::filesystem::path& cgroup);

}  // namespace roll::agent
