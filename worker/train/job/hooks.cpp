#include "worker/train/job/hooks.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

std::vector<char*> pointers_of(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

// Returns the number as JSON text. Parsing the text gives exactly the same number.
std::string number_text(double value) { return Json(value).dump(); }

// Starts the command in its own process group, with the default signal handlers. The log is its
// only open file. Returns the pid, or a negative error number.
pid_t start(std::vector<std::string> command, std::vector<std::string> environment) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_init(&files);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    pid_t pid = 0;
    const int error = ::posix_spawnp(&pid, command[0].c_str(), &files, &attributes,
                                     pointers_of(command).data(), pointers_of(environment).data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    return error == 0 ? pid : -error;
}

// Waits until the process ends, or until `timeout` has passed; then kills its process group.
// Returns a sentence that describes a failure, or an empty text.
std::string await(pid_t pid, std::chrono::milliseconds timeout) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    pollfd waits{handle, POLLIN, 0};
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    int ready = 0;
    do {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        ready = ::poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    } while (ready < 0 && errno == EINTR);
    // kill all processes that the hook started and left running
    ::kill(-pid, SIGKILL);
    if (handle >= 0) ::close(handle);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (ready == 0)
        return "took longer than " + std::to_string(timeout.count() / 1000) + " s and was killed";
    if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

struct Hooks::Running {
    std::string name;
    std::int64_t step = 0;
    bool stops = false;
    pid_t pid = 0;
    std::string failure{};  // written by `thread`; may be read once `over` is true
    std::atomic<bool> over{false};
    std::thread thread{};
};

std::map<std::string, Hook, std::less<>> read_hooks(std::string_view text) {
    std::map<std::string, Hook, std::less<>> hooks;
    const auto document = parse_json(text);
    if (!document) return hooks;
    const Json::json_pointer section("/train/hooks");
    if (!document->contains(section)) return hooks;
    for (const auto& [name, json] : (*document)[section].items()) {
        Hook hook;
        hook.command = json.value("command", hook.command);
        if (hook.command.empty()) continue;
        hook.timeout = need(spec::parse_duration(json.value("timeout", std::string("60s"))));
        hook.stops = json.value("on_fail", "warn") == std::string("stop");
        hook.waits = json.value("wait", false);
        hook.every = json.value("every", std::int64_t{0});
        hooks.emplace(name, std::move(hook));
    }
    return hooks;
}

Hooks::Hooks(const protocol::Launch& launch, int rank) {
    if (rank != 0) return;
    hooks_ = read_hooks(launch.document);
    environment_ = {"ROLL_JOB=" + std::to_string(launch.attempt.job.value),
                    "ROLL_TOKEN=" + to_string(launch.attempt.token), "ROLL_OUTPUT=" + launch.output,
                    "ROLL_METRICS=" + launch.output + "/metrics.jsonl"};
    for (char** one = environ; *one != nullptr; ++one) {
        const std::string_view name = std::string_view(*one).substr(0, std::strcspn(*one, "=") + 1);
        const bool known = std::ranges::any_of(
            environment_, [&](const std::string& own) { return own.starts_with(name); });
        if (!known) environment_.emplace_back(*one);
    }
}

Hooks::~Hooks() {
    for (auto& [name, running] : running_) {
        if (!running->over && running->pid > 0) ::kill(-running->pid, SIGKILL);
        if (running->thread.joinable()) running->thread.join();
    }
}

void Hooks::run(std::string_view name, const HookFacts& facts) {
    const auto found = hooks_.find(name);
    if (found == hooks_.end()) return;
    check();
    const Hook& hook = found->second;
    if (running_.contains(name)) {
        std::printf("hook %s at step %lld is skipped, because its previous run has not ended\n",
                    found->first.c_str(), static_cast<long long>(facts.step));
        return;
    }
    std::vector<std::string> environment = environment_;
    const auto set = [&](const std::string& key, const std::string& value) {
        environment.push_back(key + "=" + value);
    };
    set("ROLL_HOOK", found->first);
    set("ROLL_STEP", std::to_string(facts.step));
    set("ROLL_STEPS", std::to_string(facts.steps));
    set("ROLL_TOKENS", std::to_string(facts.tokens));
    if (facts.loss) set("ROLL_LOSS", number_text(*facts.loss));
    if (facts.valid_loss) set("ROLL_VALID_LOSS", number_text(*facts.valid_loss));
    if (!facts.checkpoint.empty()) set("ROLL_CHECKPOINT", facts.checkpoint);
    if (facts.status) set("ROLL_STATUS", std::to_string(*facts.status));
    std::fflush(stdout);
    const pid_t pid = start(hook.command, std::move(environment));
    auto running = std::make_unique<Running>();
    running->name = found->first;
    running->step = facts.step;
    running->stops = hook.stops;
    running->pid = pid;
    running->thread = std::thread(
        [pid, timeout = hook.timeout, program = hook.command.front(), to = running.get()] {
            to->failure = pid > 0 ? await(pid, timeout)
                                  : "cannot start " + program + ": " + std::strerror(-pid);
            to->over = true;
        });
    if (hook.waits) running->thread.join();
    running_.emplace(found->first, std::move(running));
    if (hook.waits) check();
}

void Hooks::step_done(const HookFacts& facts) {
    check();
    const auto hook = hooks_.find("step");
    if (hook == hooks_.end() || hook->second.every <= 0) return;
    if (facts.step % hook->second.every == 0) run("step", facts);
}

void Hooks::conclude(const Running& running) {
    if (running.failure.empty()) return;
    const std::string text =
        "hook " + running.name + " at step " + std::to_string(running.step) + " " + running.failure;
    if (running.stops) {
        failure_ = text + "; train.hooks." + running.name + ".on_fail is stop";
        return;
    }
    std::printf("%s; training goes on\n", text.c_str());
}

void Hooks::check() {
    for (auto at = running_.begin(); at != running_.end();) {
        if (!at->second->over) {
            ++at;
            continue;
        }
        const auto ended = std::move(at->second);
        at = running_.erase(at);
        if (ended->thread.joinable()) ended->thread.join();
        conclude(*ended);
    }
}

void Hooks::finish() {
    for (auto& [name, running] : running_)
        if (running->thread.joinable()) running->thread.join();
    check();
}

}  // namespace roll::train
