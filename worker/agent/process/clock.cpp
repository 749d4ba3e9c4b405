#include "worker/agent/process/clock.hpp"

#include <cstdint>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

#include "common/io/process.hpp"

namespace roll::agent {
namespace {

// Returns the clock ticks in /proc/PID/stat; 0 if the process has ended.
std::int64_t ticks_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    // The process's name, in parentheses, may contain blanks and parentheses.
    const std::size_t end = line.rfind(')');
    if (end == std::string::npos) return 0;
    std::istringstream words(line.substr(end + 1));
    std::string skipped;
    for (int field = 3; field < 14; ++field) words >> skipped;
    // fields 14 to 17 of the line, in clock ticks
    std::int64_t own = 0, kernel = 0, children = 0, children_kernel = 0;
    words >> own >> kernel >> children >> children_kernel;
    return own + kernel + children + children_kernel;
}

}  // namespace

Instant boot_now() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::duration_cast<Instant>(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

std::chrono::milliseconds cpu_time_below(pid_t ancestor) {
    static const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
    std::int64_t ticks = 0;
    for (const pid_t pid : io::descendant_ids(ancestor)) ticks += ticks_of(pid);
    return std::chrono::milliseconds(1000 * ticks / ticks_per_second);
}

}  // namespace roll::agent
