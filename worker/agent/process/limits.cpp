#include "worker/agent/process/limits.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/descriptor.hpp"
#include "common/number.hpp"
#include "worker/agent/host/cgroups.hpp"
#include "worker/agent/process/wall.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPeriodMicros = 100'000;  // the kernel's default period of a CPU quota

// Writes a value to a file of a cgroup.
Result<void> set(const fs::path& file, const std::string& value) {
    const io::Descriptor open(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (open && ::write(open.get(), value.data(), value.size()) == std::ssize(value)) return {};
    return fail(ErrorCode::Unavailable, "cannot write " + value + " to " + file.string() + ": " +
                                            std::generic_category().message(errno));
}

Result<void> make(const fs::path& directory) {
    if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return {};
    return fail(ErrorCode::Unavailable, "cannot make " + directory.string() + ": " +
                                            std::generic_category().message(errno));
}

bool has_word(const fs::path& file, const std::string& word) {
    std::istringstream words(read_file(file).value_or(""));
    for (std::string one; words >> one;)
        if (one == word) return true;
    return false;
}

std::int64_t number_in(const fs::path& file) {
    const std::string text = read_file(file).value_or("");
    return parse_number<std::int64_t>(text.substr(0, text.find('\n'))).value_or(0);
}

// Enables a controller of cgroup v2 for the cgroups below `wall`: enables it in the cgroup above
// `wall`, then in `wall` itself. Returns false if that fails.
bool delegate(const fs::path& wall, const std::string& controller) {
    const fs::path own = wall.parent_path();
    if (!has_word(own / "cgroup.controllers", controller)) return false;
    const auto enable = [&](const fs::path& group) {
        return has_word(group / "cgroup.subtree_control", controller) ||
               set(group / "cgroup.subtree_control", "+" + controller).has_value();
    };
    if (!enable(own)) {
        // The kernel refuses to enable a controller in a cgroup that has processes. Move this
        // process to another cgroup and try again, because it may be the only process in `own`.
        const fs::path leaf = wall.string() + ".worker";
        const std::string self = std::to_string(::getpid());
        if (!make(leaf) || !set(leaf / "cgroup.procs", self)) return false;
        if (!enable(own)) {
            static_cast<void>(set(own / "cgroup.procs", self));
            remove_cgroup(leaf);
            return false;
        }
    }
    return enable(wall);
}

// Makes the cgroup of v1 that holds the attempts' cgroups, and tests whether limits can be set in
// it. Returns an empty path if they cannot.
fs::path make_v1(const std::string& controller, const std::string& session, const fs::path& proc) {
    const auto [file, value] = controller == "memory"
                                   ? std::pair("memory.limit_in_bytes", "67108864")
                                   : std::pair("cpu.cfs_quota_us", "100000");
    for (const fs::path& own : own_cgroups(controller, proc)) {
        const fs::path directory = own / ("roll-" + session);
        if (make(directory) && make(directory / "trial") &&
            set(directory / "trial" / file, value)) {
            remove_cgroup(directory / "trial");
            return directory;
        }
        remove_cgroup(directory);
    }
    return {};
}

// Sets the memory limit. Also limits swap if the kernel accounts for it: in v1 the limit includes
// swap, and in v2 no swap is allowed.
Result<void> limit_memory(const fs::path& group, int version, std::int64_t bytes) {
    const std::string text = std::to_string(bytes);
    if (version == 1) {
        ROLL_TRY_VOID(set(group / "memory.limit_in_bytes", text));
        static_cast<void>(set(group / "memory.memsw.limit_in_bytes", text));
        return {};
    }
    ROLL_TRY_VOID(set(group / "memory.max", text));
    static_cast<void>(set(group / "memory.swap.max", "0"));
    static_cast<void>(set(group / "memory.oom.group", "1"));
    return {};
}

Result<void> limit_cpus(const fs::path& group, int version, int cpus) {
    const std::string quota = std::to_string(cpus * kPeriodMicros);
    const std::string period = std::to_string(kPeriodMicros);
    if (version == 2) return set(group / "cpu.max", quota + " " + period);
    ROLL_TRY_VOID(set(group / "cpu.cfs_period_us", period));
    return set(group / "cpu.cfs_quota_us", quota);
}

}  // namespace

Limiter Limiter::choose(const fs::path& wall, const std::string& session, const fs::path& proc) {
    Limiter limiter;
    if (!wall.empty() && delegate(wall, "memory")) limiter.memory_ = 2;
    if (!wall.empty() && delegate(wall, "cpu")) limiter.cpu_ = 2;
    if (limiter.memory_ == 0) {
        limiter.memory_directory_ = make_v1("memory", session, proc);
        limiter.memory_ = limiter.memory_directory_.empty() ? 0 : 1;
    }
    if (limiter.cpu_ == 0) {
        limiter.cpu_directory_ = make_v1("cpu", session, proc);
        limiter.cpu_ = limiter.cpu_directory_.empty() ? 0 : 1;
    }
    return limiter;
}

std::string Limiter::text() const {
    if (memory_ == 0 && cpu_ == 0) return "watched, not enforced";
    if (memory_ == 0)
        return "memory is watched, not enforced; CPUs are limited by cgroup v" +
               std::to_string(cpu_);
    return "cgroup v" + std::to_string(memory_) + (cpu_ == 0 ? ", cpus not enforced" : "");
}

std::vector<std::string> Limiter::directories() const {
    std::vector<std::string> all;
    for (const fs::path& directory : {memory_directory_, cpu_directory_})
        if (!directory.empty()) all.push_back(directory.string());
    return all;
}

Result<LimitCgroups> Limiter::enclose(const AttemptKey& key, const AttemptLimits& limits,
                                      const std::string& wall) const {
    LimitCgroups groups;
    if (limits.memory > 0 && memory_ > 0) {
        const fs::path group = memory_ == 2 ? fs::path(wall) : cgroup_of(memory_directory_, key);
        ROLL_TRY_VOID(make(group));
        ROLL_TRY_VOID(limit_memory(group, memory_, limits.memory));
        groups.memory = group.string();
    }
    if (limits.cpus > 0 && cpu_ > 0) {
        const fs::path group = cpu_ == 2 ? fs::path(wall) : cgroup_of(cpu_directory_, key);
        ROLL_TRY_VOID(make(group));
        ROLL_TRY_VOID(limit_cpus(group, cpu_, limits.cpus));
        groups.cpu = group.string();
    }
    return groups;
}

void Limiter::open(const AttemptKey& key) const {
    for (const std::string& directory : directories()) remove_cgroup(cgroup_of(directory, key));
}

// The file with the line "oom_kill N" is memory.events in v2 and memory.oom_control in v1.
std::int64_t kills_for_memory(const fs::path& cgroup) {
    for (const char* name : {"memory.events", "memory.oom_control"}) {
        std::istringstream lines(read_file(cgroup / name).value_or(""));
        std::int64_t count = 0;
        for (std::string word; lines >> word;)
            if (word == "oom_kill" && lines >> count) return count;
    }
    return 0;
}

std::int64_t peak_memory(const fs::path& cgroup) {
    return std::max(number_in(cgroup / "memory.peak"),
                    number_in(cgroup / "memory.max_usage_in_bytes"));
}

std::int64_t used_memory(const fs::path& cgroup) {
    return std::max(number_in(cgroup / "memory.current"),
                    number_in(cgroup / "memory.usage_in_bytes"));
}

}  // namespace roll::agent
