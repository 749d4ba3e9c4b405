#include "worker/agent/process/wall.hpp"

#include <array>
#include <csignal>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "worker/agent/host/cgroups.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kNames = {"marks", "namespace", "cgroup"};
constexpr Millis kEmptyTime{10000};  // longest wait from SIGKILL until a cgroup is empty
constexpr Millis kTrialTime{1000};   // longest wait until the trial's cgroup is empty

tl::unexpected<Error> cannot(const char* what, const fs::path& cgroup) {
    return fail(ErrorCode::Unavailable, std::string("cannot ") + what + " " + cgroup.string() +
                                            ": " + std::generic_category().message(errno));
}

bool is_unpopulated(const fs::path& directory) {
    const auto events = read_file(directory / "cgroup.events");
    std::error_code error;
    if (!events) return !fs::exists(directory, error) && !error;
    return events->find("populated 0") != std::string::npos;
}

// Tests whether cgroups can be used: starts a process in a cgroup below `directory` and ends it by
// cgroup.kill.
Result<void> try_cgroup(const fs::path& directory) {
    ROLL_TRY(const io::Pipe input, io::make_pipe());
    const fs::path trial = directory / "trial";
    if (::mkdir(trial.c_str(), 0755) != 0) return cannot("make", trial);
    ROLL_TRY(const io::Descriptor procs, open_cgroup(trial));
    io::Spawn spawn;
    spawn.arguments = {"/bin/sh", "-c", "read line"};
    spawn.descriptors = {{input.read.get(), STDIN_FILENO}};
    spawn.cgroups = {procs.get()};
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    // Repeat cgroup.kill, because the process may enter the cgroup only after the first kill: under
    // qemu-user, clone does not wait for the exec.
    for (const Instant until = boot_now() + kTrialTime; kill_cgroup(trial) && boot_now() < until;) {
        if (::waitpid(pid, nullptr, WNOHANG) == pid) return {};
        std::this_thread::sleep_for(Millis(2));
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return fail(ErrorCode::Refused,
                "cgroup.kill (since Linux 5.14) does not end a process in " + trial.string());
}

Result<fs::path> make_cgroup(const std::string& session) {
    Result<fs::path> made = fail(ErrorCode::Refused, "no cgroup v2 hierarchy is mounted");
    for (const fs::path& own : own_cgroups()) {
        const fs::path directory = own / ("roll-" + session);
        const bool there = ::mkdir(directory.c_str(), 0755) == 0;
        const Result<void> tried = there ? try_cgroup(directory) : cannot("make", directory);
        remove_cgroup(directory / "trial");
        if (tried) return directory;
        made = tl::unexpected(tried.error());
        remove_cgroup(directory);
    }
    return made;
}

Result<void> try_namespace() {
    io::Spawn spawn;
    spawn.arguments = {"/bin/sh", "-c", "test $$ = 1 && test -d /proc/1"};
    spawn.pid_namespace = true;
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status == 0) return {};
    return fail(ErrorCode::Refused, "a test program in a new PID namespace failed");
}

}  // namespace

const char* name_of(WallKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

WallKind wall_from(std::string_view name) {
    for (const WallKind kind : {WallKind::Cgroup, WallKind::Namespace})
        if (name == name_of(kind)) return kind;
    return WallKind::Marks;
}

Result<Wall> Wall::choose(std::string_view only, const std::string& session) {
    Wall wall;
    const auto wanted = [&](WallKind kind) { return only.empty() || only == name_of(kind); };
    if (wanted(WallKind::Cgroup)) {
        if (auto directory = make_cgroup(session)) {
            wall.kind_ = WallKind::Cgroup;
            wall.directory_ = *std::move(directory);
            return wall;
        } else {
            wall.refused_.push_back("cgroup: " + directory.error().message);
        }
    }
    if (wanted(WallKind::Namespace)) {
        if (const auto tried = try_namespace()) {
            wall.kind_ = WallKind::Namespace;
            return wall;
        } else {
            wall.refused_.push_back("namespace: " + tried.error().message);
        }
    }
    if (wanted(WallKind::Marks)) return wall;
    return fail(ErrorCode::Refused, "this host does not support --wall " + wall.refused_.front(),
                "without --wall, roll-worker chooses a wall that the host supports");
}

fs::path cgroup_of(const fs::path& directory, const AttemptKey& key) {
    return directory / ("job-" + std::to_string(key.job.value) + "." + to_string(key.token));
}

Result<fs::path> Wall::enclose(const AttemptKey& key) const {
    if (kind_ != WallKind::Cgroup) return fs::path{};
    const fs::path cgroup = cgroup_of(directory_, key);
    if (::mkdir(cgroup.c_str(), 0755) == 0 || errno == EEXIST) return cgroup;
    return cannot("make", cgroup);
}

void Wall::end(const AttemptKey& key) const {
    if (kind_ == WallKind::Cgroup) end_cgroup(cgroup_of(directory_, key), kEmptyTime);
}

void Wall::open(const AttemptKey& key) const {
    if (kind_ == WallKind::Cgroup) remove_cgroup(cgroup_of(directory_, key));
}

Result<io::Descriptor> open_cgroup(const fs::path& directory) {
    io::Descriptor procs(::open((directory / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (!procs) return cannot("enter", directory);
    return procs;
}

// Returns false on kernels before 5.14, which lack cgroup.kill.
bool kill_cgroup(const fs::path& directory) {
    const io::Descriptor file(::open((directory / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), "1", 1) == 1;
}

bool end_cgroup(const fs::path& directory, Millis timeout) {
    for (const Instant until = boot_now() + timeout; !is_unpopulated(directory);) {
        if (boot_now() >= until) return false;
        kill_cgroup(directory);
        std::this_thread::sleep_for(Millis(2));
    }
    return true;
}

void remove_cgroup(const fs::path& directory) {
    if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return;
    std::error_code error;
    std::vector<fs::path> below;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->is_directory(error)) below.push_back(entry->path());
    for (const fs::path& cgroup : below) remove_cgroup(cgroup);
    ::rmdir(directory.c_str());
}

}  // namespace roll::agent
