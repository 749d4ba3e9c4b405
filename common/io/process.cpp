#include "common/io/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/split.hpp"

namespace roll::io {
namespace {

enum class Step : int { Cgroup, Namespace, Group, Directory, Descriptors, Execute };
struct Failure {
    Step step = Step::Execute;
    int number = 0;
};

// The data that the child needs, prepared before clone(). Until exec, the child shares the parent's
// memory, so the child may only make system calls.
struct Prepared {
    const Spawn& spawn;
    std::vector<std::string> candidates{};  // paths to try, in order
    std::vector<char*> arguments{};
    std::vector<char*> environment{};
    std::vector<std::pair<int, int>> descriptors{};
    pid_t parent = 0;
    int namespaces = 0;  // flags for clone()
    // Text for uid_map of a new user namespace; maps the caller's uid to itself
    std::string uid_map;
    std::string gid_map;
    std::optional<Failure> failure{};  // set by the child if it could not call exec
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const std::string& text : strings)
        result.push_back(const_cast<char*>(text.c_str()));  // NOLINT: exec's type
    result.push_back(nullptr);
    return result;
}

// Returns the paths that execvp would try. Unlike execvp, spawn() never falls back to a shell.
std::vector<std::string> candidates_of(const Spawn& spawn) {
    const std::string& program = spawn.arguments[0];
    if (program.find('/') != std::string::npos) return {program};
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    for (const std::string& variable : spawn.environment)
        if (variable.starts_with("PATH=")) path = variable.substr(5);
    std::vector<std::string> candidates;
    for (const std::string& directory : words_at(path, ':'))
        candidates.push_back(directory + "/" + program);
    return candidates;
}

[[noreturn]] void give_up(Prepared& prepared, Step step) {
    prepared.failure = Failure{step, errno};
    ::_exit(127);
}

// Restores the default actions of all signals up to SIGSYS, and unblocks all signals. Real-time
// signals have higher numbers. They need no reset, because Roll neither handles nor ignores them.
void reset_signals() {
    for (int signal = 1; signal <= SIGSYS; ++signal) ::signal(signal, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool write_to(const char* path, const std::string& text) {
    const int file = ::open(path, O_WRONLY | O_CLOEXEC);
    return file >= 0 && ::write(file, text.data(), text.size()) == std::ssize(text);
}

// Sets up the id maps and a private /proc. File systems that the host mounts later also appear in
// the namespace.
void enter_namespaces(Prepared& prepared) {
    if ((prepared.namespaces & CLONE_NEWUSER) != 0) {
        const bool mapped = write_to("/proc/self/setgroups", "deny") &&
                            write_to("/proc/self/uid_map", prepared.uid_map) &&
                            write_to("/proc/self/gid_map", prepared.gid_map);
        if (!mapped) give_up(prepared, Step::Namespace);
    }
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
        ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
        give_up(prepared, Step::Namespace);
}

void arrange_descriptors(Prepared& prepared) {
    constexpr int kOutOfTheWay = 256;
    for (auto& [ours, theirs] : prepared.descriptors) {
        ours = ::fcntl(ours, F_DUPFD_CLOEXEC, kOutOfTheWay);
        if (ours < 0) give_up(prepared, Step::Descriptors);
    }
    ::syscall(SYS_close_range, 3, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    for (int standard = 0; standard < 3; ++standard) {
        const auto given = [&](const auto& pair) { return pair.second == standard; };
        if (std::ranges::any_of(prepared.descriptors, given)) continue;
        const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null != standard) ::dup2(null, standard);
    }
    for (const auto& [ours, theirs] : prepared.descriptors)
        if (::dup2(ours, theirs) < 0) give_up(prepared, Step::Descriptors);
}

// Pins the child to `cpus`. Ignores a failure, for example because a CPU went offline; the program
// then runs on all CPUs.
void pin(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) CPU_SET(cpu, &set);  // NOLINT: the macro's own casts
    ::sched_setaffinity(0, sizeof set, &set);
}

[[noreturn]] void run_child(Prepared& prepared) {
    const Spawn& spawn = prepared.spawn;
    reset_signals();
    for (const int cgroup : spawn.cgroups)
        if (::write(cgroup, "0", 1) != 1) give_up(prepared, Step::Cgroup);
    if (prepared.namespaces != 0) enter_namespaces(prepared);
    if (spawn.new_session) ::setsid();
    pin(spawn.cpus);
    if (spawn.umask) ::umask(*spawn.umask);
    if (spawn.group && ::setpgid(0, *spawn.group) != 0) give_up(prepared, Step::Group);
    if (spawn.death_signal != 0) {
        ::prctl(PR_SET_PDEATHSIG, spawn.death_signal);
        // If the parent died before PR_SET_PDEATHSIG took effect, the child gets no signal, so it
        // exits here.
        if (::getppid() != prepared.parent) ::_exit(127);
    }
    arrange_descriptors(prepared);
    if (spawn.controlling_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0)
        give_up(prepared, Step::Descriptors);
    if (!spawn.directory.empty() && ::chdir(spawn.directory.c_str()) != 0)
        give_up(prepared, Step::Directory);
    int number = ENOENT;
    for (const std::string& candidate : prepared.candidates) {
        ::execve(candidate.c_str(), prepared.arguments.data(), prepared.environment.data());
        if (errno != ENOENT && errno != ENOTDIR) number = errno;
    }
    errno = number;
    give_up(prepared, Step::Execute);
}

int run_prepared(void* prepared) { run_child(*static_cast<Prepared*>(prepared)); }

// Clones the child, and returns once the child has called exec or ended. Blocks all signals
// meanwhile, so that no signal handler of this process runs in the child.
pid_t start_child(Prepared& prepared) {
    alignas(64) std::array<char, 64 << 10> stack;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = ::clone(&run_prepared, stack.data() + stack.size(),
                              CLONE_VM | CLONE_VFORK | SIGCHLD | prepared.namespaces, &prepared);
    const int number = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = number;
    return pid;
}

tl::unexpected<Error> explain(const Spawn& spawn, const Failure& failure) {
    const std::string why = ": " + std::generic_category().message(failure.number);
    const bool missing = failure.number == ENOENT;
    constexpr std::array kUnfit = {EACCES, EPERM, ENOEXEC, ENOTDIR,
                                   EISDIR, E2BIG, ELOOP,   ENAMETOOLONG};
    const bool unfit = std::ranges::find(kUnfit, failure.number) != kUnfit.end();
    const ErrorCode code = missing ? ErrorCode::NotFound
                           : unfit ? ErrorCode::InvalidArgument
                                   : ErrorCode::Failed;
    switch (failure.step) {
        case Step::Directory: return fail(code, "cannot enter directory " + spawn.directory + why);
        case Step::Execute: return fail(code, "cannot run " + spawn.arguments[0] + why);
        case Step::Cgroup: return fail(code, "cannot enter a cgroup" + why);
        case Step::Namespace: return fail(code, "cannot set up a PID namespace" + why);
        case Step::Group:
        case Step::Descriptors: break;
    }
    return fail(ErrorCode::Failed, "cannot start " + spawn.arguments[0] + why);
}

std::string map_of(unsigned id) {
    const std::string text = std::to_string(id);
    return text + " " + text + " 1";
}

std::optional<ProcessInfo> parse_stat(const std::string& stat) {
    // The program's name is in parentheses and may contain any characters, so search for the last
    // ')'.
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) return std::nullopt;
    ProcessInfo info;
    info.pid = std::atoi(stat.c_str());
    int field = 0;
    std::size_t at = name_end + 2;
    while (at < stat.size() && field < 20) {
        const std::size_t end = std::min(stat.find(' ', at), stat.size());
        const char* const text = stat.c_str() + at;
        if (field == 0) info.state = *text;
        if (field == 1) info.parent = std::atoi(text);
        if (field == 2) info.group = std::atoi(text);
        if (field == 19) info.started = std::strtoull(text, nullptr, 10);
        at = end + 1;
        ++field;
    }
    if (field < 20) return std::nullopt;
    return info;
}

}  // namespace

Result<pid_t> spawn(const Spawn& spawn) {
    Prepared prepared{.spawn = spawn,
                      .candidates = candidates_of(spawn),
                      .arguments = pointers(spawn.arguments),
                      .environment = pointers(spawn.environment),
                      .descriptors = spawn.descriptors,
                      .parent = ::getpid(),
                      .uid_map = map_of(::geteuid()),
                      .gid_map = map_of(::getegid())};
    if (spawn.pid_namespace) prepared.namespaces = CLONE_NEWPID | CLONE_NEWNS;
    pid_t pid = start_child(prepared);
    if (pid < 0 && errno == EPERM && spawn.pid_namespace) {
        prepared.namespaces |= CLONE_NEWUSER;
        pid = start_child(prepared);
    }
    if (pid < 0)
        return fail(ErrorCode::Failed, "cannot start " + spawn.arguments[0] + ": " +
                                           std::generic_category().message(errno));
    if (!prepared.failure) return pid;
    ::waitpid(pid, nullptr, 0);
    return explain(spawn, *prepared.failure);
}

std::vector<std::string> current_environment() {
    std::vector<std::string> result;
    for (char** variable = environ; *variable != nullptr; ++variable)
        result.emplace_back(*variable);
    return result;
}

std::string own_program() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    return path.string();
}

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return fail(ErrorCode::Failed,
                    "cannot create a pipe: " + std::generic_category().message(errno));
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::optional<ProcessInfo> find_process(pid_t pid) {
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return stat ? parse_stat(*stat) : std::nullopt;
}

bool is_alive(pid_t pid) {
    ::waitpid(pid, nullptr, WNOHANG);
    const auto info = find_process(pid);
    return info && info->state != 'Z' && info->state != 'X';
}

std::optional<pid_t> running(const std::filesystem::path& pid_file, const std::string& program) {
    std::ifstream in(pid_file);
    pid_t pid = 0;
    if (!(in >> pid) || pid <= 0 || !is_alive(pid)) return std::nullopt;
    // The pid may have been reused, so compare the name of the process. Do not compare
    // /proc/PID/exe, because a new build may have replaced the program's file.
    std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    if (!std::getline(comm, name) || name == program) return pid;
    return std::nullopt;
}

std::vector<ProcessInfo> descendants(pid_t ancestor) {
    std::multimap<pid_t, ProcessInfo> children;
    std::error_code error;
    std::filesystem::directory_iterator entry("/proc", error);
    for (const std::filesystem::directory_iterator end; !error && entry != end;
         entry.increment(error)) {
        const pid_t pid = std::atoi(entry->path().filename().c_str());
        const auto info = pid > 0 ? find_process(pid) : std::nullopt;
        if (info) children.emplace(info->parent, *info);
    }
    std::vector<ProcessInfo> found;
    std::set<pid_t> seen{ancestor};
    for (std::size_t next = 0; next <= found.size(); ++next) {
        const pid_t parent = next == 0 ? ancestor : found[next - 1].pid;
        const auto [begin, end] = children.equal_range(parent);
        for (auto child = begin; child != end; ++child)
            if (seen.insert(child->second.pid).second) found.push_back(child->second);
    }
    return found;
}

// Reads /proc/PID/task/TID/children. Uses descendants() if the kernel does not have these files
// (CONFIG_PROC_CHILDREN).
std::vector<pid_t> descendant_ids(pid_t ancestor) {
    std::vector<pid_t> found;
    std::set<pid_t> seen{ancestor};
    bool supported = false;
    for (std::size_t next = 0; next <= found.size(); ++next) {
        const pid_t parent = next == 0 ? ancestor : found[next - 1];
        std::error_code error;
        std::filesystem::directory_iterator task("/proc/" + std::to_string(parent) + "/task",
                                                 error);
        for (const std::filesystem::directory_iterator end; !error && task != end;
             task.increment(error)) {
            std::ifstream children(task->path() / "children");
            supported |= children.is_open();
            for (pid_t child = 0; children >> child;)
                if (seen.insert(child).second) found.push_back(child);
        }
    }
    if (!supported)
        for (const ProcessInfo& process : descendants(ancestor)) found.push_back(process.pid);
    return found;
}

bool wait_ended(pid_t pid, std::uint64_t started, std::chrono::milliseconds timeout) {
    const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    // Read the process's start time after opening the handle. If the time equals `started`, the
    // handle belongs to the expected process, not to a later process with the same pid.
    const auto info = find_process(pid);
    if (!handle || !info || info->started != started || info->state == 'Z') return true;
    pollfd waited{.fd = handle.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waited, 1, static_cast<int>(timeout.count())) > 0;
}

std::string boot_id() {
    const auto id = read_file("/proc/sys/kernel/random/boot_id");
    return id ? id->substr(0, 36) : "";
}

void become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

}  // namespace roll::io
