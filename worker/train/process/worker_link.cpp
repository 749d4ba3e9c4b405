#include "worker/train/process/worker_link.hpp"

#include <csignal>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roll::train {
namespace {

bool is_channel(int fd) {
    struct stat info {};
    return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

bool has_input(int fd, std::chrono::milliseconds timeout) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n <= 0) return;  // roll-worker has closed its end, but training continues
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

}  // namespace

WorkerLink::WorkerLink()
    : up_(::fcntl(protocol::kReportDescriptor, F_GETFD) >= 0),
      down_(is_channel(STDIN_FILENO)) {
    if (up_) ::fcntl(protocol::kReportDescriptor, F_SETFD, FD_CLOEXEC);
    sigset_t stops;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTERM);
    ::sigaddset(&stops, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    // Ignore SIGXFSZ, so that a write beyond the limit on the file size returns an error.
    ::signal(SIGXFSZ, SIG_IGN);
}

void WorkerLink::report(const protocol::Report& report) {
    const std::string line = protocol::encode(report) + '\n';
    if (up_) {
        write_all(protocol::kReportDescriptor, line);
    } else if (!std::holds_alternative<protocol::Progress>(report)) {
        write_all(STDERR_FILENO, line);
    }
}

void WorkerLink::read_lines() {
    while (down_ && has_input(STDIN_FILENO, std::chrono::milliseconds(0))) {
        char buffer[4096];
        const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
        if (n <= 0) down_ = false;
        if (n > 0) unread_.append(buffer, static_cast<std::size_t>(n));
    }
    for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
        const std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        const auto command = protocol::decode_command(line);
        if (!command) {
            std::fprintf(stderr, "a line on stdin is not a command: %s\n",
                         command.error().message.c_str());
            continue;
        }
        if (const auto* recorded = std::get_if<protocol::RecordedStep>(&*command))
            heard_.recorded.push_back(recorded->step);
        if (const auto* save = std::get_if<protocol::SaveNow>(&*command)) heard_.save = save->asked;
        if (const auto* asked = std::get_if<protocol::Asked>(&*command))
            heard_.requests.push_back(asked->request);
        if (const auto* stop = std::get_if<protocol::StopAtStep>(&*command)) {
            heard_.stop = true;
            heard_.checkpoint = stop->checkpoint;
        }
    }
}

bool WorkerLink::is_stopped() {
    read_lines();
    sigset_t pending;
    ::sigpending(&pending);
    heard_.stop |= ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1;
    return heard_.stop;
}

Heard WorkerLink::poll() {
    is_stopped();
    return std::exchange(heard_, {});
}

void WorkerLink::await_line(std::chrono::milliseconds timeout) const {
    if (down_) has_input(STDIN_FILENO, timeout);
}

}  // namespace roll::train
