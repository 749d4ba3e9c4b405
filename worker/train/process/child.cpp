#include "worker/train/process/child.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/rank.hpp"

namespace roll::train {
namespace {

std::vector<char*> pointers_of(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

}  // namespace

std::vector<std::string> with_environment(std::vector<std::string> own) {
    for (char** one = environ; *one != nullptr; ++one) {
        const std::string_view name = std::string_view(*one).substr(0, std::strcspn(*one, "=") + 1);
        const bool known = std::ranges::any_of(
            own, [&](const std::string& text) { return text.starts_with(name); });
        if (!known) own.emplace_back(*one);
    }
    return own;
}

pid_t start_child(std::vector<std::string> command, std::vector<std::string> environment,
                  Reports reports) {
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
    if (reports == Reports::Discarded)
        ::posix_spawn_file_actions_addopen(&files, protocol::kReportDescriptor, "/dev/null",
                                           O_WRONLY, 0);
    pid_t pid = 0;
    const int error = ::posix_spawnp(&pid, command[0].c_str(), &files, &attributes,
                                     pointers_of(command).data(), pointers_of(environment).data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    return error == 0 ? pid : -error;
}

std::string await_child(pid_t pid, std::chrono::milliseconds timeout) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    pollfd waits{handle, POLLIN, 0};
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    int ready = 0;
    do {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        ready = ::poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    } while (ready < 0 && errno == EINTR);
    // kill all processes that the child started and left running
    ::kill(-pid, SIGKILL);
    if (handle >= 0) ::close(handle);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (ready == 0)
        return "took longer than " + std::to_string(timeout.count() / 1000) + " s and was killed";
    if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace roll::train
