#include "worker/agent/process/memory_watch.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/io/process.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/agent/process/limits.hpp"

namespace roll::agent {
namespace {

constexpr Millis kBetweenLooks{1000};
// A rate of 10 GB/s. If a cgroup enforces the limit, the time between two measurements is the limit
// divided by this rate. A program that fills memory at 5 GB/s therefore fills at most half of its
// limit between two measurements.
constexpr std::int64_t kBytesPerMilli = 10'000'000;
constexpr std::int64_t kMillisLeast = 5;
constexpr std::int64_t kMillisMost = 100;

std::string file_of(pid_t pid, const char* name) {
    return "/proc/" + std::to_string(pid) + "/" + name;
}

// Returns the resident memory of a process; 0 if the process has ended. Shared pages count in full.
std::int64_t resident(pid_t pid) {
    static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    std::ifstream statm(file_of(pid, "statm"));
    std::int64_t size = 0, pages = 0;
    statm >> size >> pages;
    return pages * page;
}

// Returns the memory of a process with its share of each shared page (PSS). Returns the resident
// memory if the kernel does not report PSS.
std::int64_t proportional_memory(pid_t pid) {
    std::ifstream rollup(file_of(pid, "smaps_rollup"));
    for (std::string word; rollup >> word;) {
        std::int64_t kibibytes = 0;
        if (word == "Pss:" && rollup >> kibibytes) return kibibytes * 1024;
    }
    return resident(pid);
}

}  // namespace

std::string name_of_process(pid_t pid) {
    std::ifstream comm(file_of(pid, "comm"));
    std::string name;
    std::getline(comm, name);
    return name;
}

Millis MemoryWatch::interval() const {
    if (limit_.bytes == 0) return kBetweenLooks;
    if (limit_.cgroup.empty()) return Millis(kMillisMost);
    return Millis(std::clamp(limit_.bytes / kBytesPerMilli, kMillisLeast, kMillisMost));
}

// Returns the memory of all processes in bytes, and stores the largest process.
std::int64_t MemoryWatch::measure(bool proportional) {
    std::int64_t sum = 0;
    Process largest;
    for (const pid_t pid : io::descendant_ids(ancestor_)) {
        const std::int64_t bytes = proportional ? proportional_memory(pid) : resident(pid);
        sum += bytes;
        if (bytes > largest.bytes) largest = {pid, {}, bytes};
    }
    if (largest.pid > 0) {
        largest.name = name_of_process(largest.pid);
        // The process may have ended meanwhile. Its name is then empty.
        if (!largest.name.empty()) largest_ = std::move(largest);
    }
    return sum;
}

bool MemoryWatch::was_killed() const {
    return !limit_.cgroup.empty() && kills_for_memory(limit_.cgroup) > 0;
}

// The sum of the processes' resident memory counts a shared page once per process, so it is only an
// upper bound of the used memory. An exact measurement takes long for large processes. Measure
// exactly only in two cases: the upper bound is above the limit, or it is more than 1/16 above its
// highest value at an earlier exact measurement.
std::optional<std::string> MemoryWatch::look(Instant now) {
    if (was_killed()) {
        const std::int64_t used = std::min(peak_memory(limit_.cgroup), limit_.bytes);
        peak_ = std::max(peak_, used);
        return reason(used);
    }
    if (now - looked_ < interval()) return std::nullopt;
    // If the kernel enforces the limit, a measurement serves only to find the peak and, near the
    // limit, the name of the largest process.
    const bool enforced = !limit_.cgroup.empty();
    const bool calm = enforced && used_memory(limit_.cgroup) < limit_.bytes / 2;
    if (calm && now - looked_ < kBetweenLooks) return std::nullopt;
    looked_ = now;
    const std::int64_t bound = measure(false);
    // The attempt uses at least as much memory as its largest process.
    used_ = std::max(bound - shared_, std::min(bound, largest_.bytes));
    const bool over = !enforced && limit_.bytes > 0 && bound > limit_.bytes;
    if (!over && bound <= resident_then_ + resident_then_ / 16) return std::nullopt;
    const std::int64_t used = measure(true);
    used_ = used;
    shared_ = std::max(bound - used, std::int64_t{0});
    resident_then_ = std::max(bound, resident_then_);
    peak_ = std::max(peak_, used);
    return over && used > limit_.bytes ? std::optional(reason(used)) : std::nullopt;
}

void MemoryWatch::note_ended(pid_t pid, std::int64_t peak, const std::string& name) {
    peak_ = std::max(peak_, peak);
    if (!name.empty() && peak > killed_.bytes) killed_ = {pid, name, peak};
}

std::string MemoryWatch::reason(std::int64_t used) const {
    // If the killed process is much larger than the largest process of the last measurement, the
    // killed process has grown since that measurement.
    const bool unseen = killed_.bytes / 4 > largest_.bytes;
    const Process& process = unseen ? killed_ : largest_;
    const std::string limit = spec::size_text(limit_.bytes);
    std::string text = spec::size_text(used);
    // Omit the first unit if both sizes have the same unit: "3.9 of 4 GiB".
    const auto unit = limit.substr(limit.find(' '));
    if (text.ends_with(unit)) text.resize(text.size() - unit.size());
    text = fmt::format("out of memory: used {} of {}", text, limit);
    // If the largest known process is small, name none: no measurement has seen the process that
    // used the memory.
    if (process.bytes < used / 8) return text;
    return text + fmt::format(" ({}, pid {})", process.name, process.pid);
}

}  // namespace roll::agent
