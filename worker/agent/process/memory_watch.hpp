// Watches the memory of an attempt's processes. Records the peak, and detects when the attempt uses
// more than its limit. If a cgroup enforces the limit, the kernel kills a process, and the watch
// notices this and names the process. Otherwise the watch itself compares the memory with the
// limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "worker/agent/core/lease.hpp"

namespace roll::agent {

struct MemoryLimit {
    std::int64_t bytes = 0;  // limit in bytes; 0: no limit
    std::string cgroup{};    // the cgroup that enforces the limit; empty: none does
    friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

class MemoryWatch {
  public:
    // Watches all descendants of the process `ancestor`.
    MemoryWatch(pid_t ancestor, MemoryLimit limit)
        : ancestor_(ancestor),
          limit_(std::move(limit)) {}

    // Returns the longest time that the caller may wait before it calls look() again.
    Millis interval() const;

    // Measures the memory if a measurement is due. If the attempt has used more than its limit,
    // returns "out of memory: used 3.9 of 4 GiB (python3, pid 123)", else nullopt. The text names a
    // process only if a measurement has seen the process that used the memory. Call this function
    // after each wait.
    std::optional<std::string> look(Instant now);

    // Records a process that has ended. `peak` is the process's peak memory in bytes, including its
    // children. `name` is the process's name if SIGKILL ended the process (the kernel may have sent
    // this signal), else empty.
    void note_ended(pid_t pid, std::int64_t peak, const std::string& name);

    // Returns the memory of all processes in bytes at the last measurement.
    std::int64_t used() const { return used_; }

    // Returns the peak memory in bytes. This is the highest sum over all processes at a
    // measurement, or the peak of a single process if that is higher.
    std::int64_t peak() const { return peak_; }

  private:
    struct Process {
        pid_t pid = 0;
        std::string name{};
        std::int64_t bytes = 0;
    };
    std::int64_t measure(bool proportional);
    std::string reason(std::int64_t used) const;
    bool was_killed() const;

    pid_t ancestor_;
    MemoryLimit limit_;
    Instant looked_{};
    std::int64_t peak_ = 0;
    std::int64_t used_ = 0;
    // highest sum of the processes' resident memory at an exact measurement
    std::int64_t resident_then_ = 0;
    // Number of bytes by which the sum of resident memory was too large at the last exact
    // measurement. The sum counts a shared page once for each process.
    std::int64_t shared_ = 0;
    Process largest_{};  // largest process at the last measurement
    Process killed_{};   // the largest process that SIGKILL has ended
};

// Returns the name of a process that is not reaped yet; empty if there is no such process.
std::string name_of_process(pid_t pid);

}  // namespace roll::agent
