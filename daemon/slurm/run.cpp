#include "daemon/slurm/run.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "common/io/process.hpp"

namespace roll::slurm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kOutputBytesMax = 64 << 20;
constexpr std::size_t kErrorBytesMax = 4'000;

// rolld's ends of the pipes for the command's stdin, stdout and stderr.
struct Talk {
    io::Descriptor input;
    io::Descriptor output;
    io::Descriptor errors;
    std::string_view unsent;
};

// Writes without raising SIGPIPE, because a program may end before it has read its input.
ssize_t write_quietly(int fd, std::string_view text) {
    sigset_t pipe;
    sigset_t before;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t n = ::write(fd, text.data(), text.size());
    const int number = errno;
    const timespec at_once{};
    if (n < 0 && number == EPIPE) ::sigtimedwait(&pipe, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = number;
    return n;
}

void write_some(Talk& talk) {
    const ssize_t n = write_quietly(talk.input.get(), talk.unsent);
    if (n > 0) talk.unsent.remove_prefix(static_cast<std::size_t>(n));
    if (talk.unsent.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) talk.input.reset();
}

void read_some(io::Descriptor& from, std::string& into, std::size_t most) {
    std::array<char, 16'384> buffer{};
    const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
    if (n > 0)
        into.append(buffer.data(), std::min<std::size_t>(n, most - std::min(most, into.size())));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        from.reset();
}

// Writes the input and reads both outputs until they are closed. Returns false at the deadline.
bool converse(Talk& talk, Clock::time_point until, Finished& finished) {
    while (talk.output || talk.errors) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0) return false;
        std::array<pollfd, 3> polled = {pollfd{talk.output.get(), POLLIN, 0},
                                        pollfd{talk.errors.get(), POLLIN, 0},
                                        pollfd{talk.input.get(), POLLOUT, 0}};
        if (::poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
        if (polled[0].revents != 0) read_some(talk.output, finished.output, kOutputBytesMax);
        if (polled[1].revents != 0) read_some(talk.errors, finished.errors, kErrorBytesMax);
        if (polled[2].revents != 0) write_some(talk);
    }
    return true;
}

// Waits for the exit status. A program may close its outputs and then hang, so returns false at the
// deadline.
bool wait_for(pid_t pid, Clock::time_point until, int& status) {
    constexpr auto kPause = std::chrono::milliseconds(2);
    for (;;) {
        if (::waitpid(pid, &status, WNOHANG) == pid) return true;
        if (Clock::now() >= until) return false;
        ::poll(nullptr, 0, kPause.count());
    }
}

void end_group(pid_t pid, int& status) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
}

Finished not_run(const std::string& why) { return {false, 127, {}, why}; }

}  // namespace

Finished run(const Command& command, std::chrono::milliseconds deadline) {
    const auto until = Clock::now() + deadline;
    auto input = io::make_pipe();
    auto output = io::make_pipe();
    auto errors = io::make_pipe();
    if (!input || !output || !errors)
        return not_run("rolld could not create a pipe; it may have too many open files");
    const auto pid = io::spawn({.arguments = command.arguments,
                                .environment = command.environment,
                                .descriptors = {{input->read.get(), 0},
                                                {output->write.get(), 1},
                                                {errors->write.get(), 2}},
                                .group = 0,
                                .umask = command.umask,
                                .death_signal = SIGKILL});
    if (!pid) return not_run(pid.error().message);
    input->read.reset();
    output->write.reset();
    errors->write.reset();
    Talk talk{std::move(input->write), std::move(output->read), std::move(errors->read),
              command.input};
    for (const int fd : {talk.input.get(), talk.output.get(), talk.errors.get()})
        ::fcntl(fd, F_SETFL, O_NONBLOCK);
    if (talk.unsent.empty()) talk.input.reset();
    Finished finished;
    int status = 0;
    finished.timed_out = !converse(talk, until, finished) || !wait_for(*pid, until, status);
    if (finished.timed_out) end_group(*pid, status);
    finished.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return finished;
}

}  // namespace roll::slurm
