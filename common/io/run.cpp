#include "common/io/run.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace roll::io {
namespace {

using RunClock = std::chrono::steady_clock;

constexpr std::size_t kErrorBytesMax = 4'000;

// Reads what is there. Closes the descriptor at the end of the file.
void read_some(Descriptor& from, std::string& into, std::size_t most) {
    std::array<char, 16'384> buffer{};
    const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
    if (n > 0)
        into.append(buffer.data(), std::min<std::size_t>(n, most - std::min(most, into.size())));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        from.reset();
}

// Reads both outputs until they are closed. Returns false at the deadline, and if the standard
// output is longer than `most` bytes.
bool collect(Descriptor output, Descriptor errors, RunClock::time_point until, std::size_t most,
             Finished& finished) {
    while (output || errors) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - RunClock::now()).count();
        if (left <= 0 || finished.output.size() > most) return false;
        std::array<pollfd, 2> polled = {pollfd{output.get(), POLLIN, 0},
                                        pollfd{errors.get(), POLLIN, 0}};
        if (::poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
        if (polled[0].revents != 0) read_some(output, finished.output, most + 1);
        if (polled[1].revents != 0) read_some(errors, finished.errors, kErrorBytesMax);
    }
    return finished.output.size() <= most;
}

// Waits for the exit status. A program may close its outputs and then hang, so returns false at the
// deadline.
bool wait_until(pid_t pid, RunClock::time_point until, int& status) {
    constexpr auto kPause = std::chrono::milliseconds(2);
    for (;;) {
        if (::waitpid(pid, &status, WNOHANG) == pid) return true;
        if (RunClock::now() >= until) return false;
        ::poll(nullptr, 0, kPause.count());
    }
}

}  // namespace

Result<Descriptor> memory_file(std::string_view content) {
    Descriptor file(::memfd_create("roll", MFD_CLOEXEC));
    while (file && !content.empty()) {
        const ssize_t n = ::write(file.get(), content.data(), content.size());
        if (n <= 0) break;
        content.remove_prefix(static_cast<std::size_t>(n));
    }
    if (!file || !content.empty() || ::lseek(file.get(), 0, SEEK_SET) != 0)
        return fail(ErrorCode::Failed, std::string("cannot write a temporary file in memory: ") +
                                           std::strerror(errno));
    return file;
}

Result<Finished> run(Spawn spawn, const RunOptions& options) {
    const auto until = RunClock::now() + options.deadline;
    ROLL_TRY(const Descriptor input, memory_file(options.input));
    ROLL_TRY(Pipe output, make_pipe());
    ROLL_TRY(Pipe errors, make_pipe());
    spawn.descriptors = {{input.get(), STDIN_FILENO},
                         {output.write.get(), STDOUT_FILENO},
                         {errors.write.get(), STDERR_FILENO}};
    spawn.group = 0;
    spawn.death_signal = SIGKILL;
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    output.write.reset();
    errors.write.reset();
    Finished finished;
    int status = 0;
    const bool whole = collect(std::move(output.read), std::move(errors.read), until,
                               options.output_max, finished);
    if (!whole || !wait_until(pid, until, status)) {
        finished.timed_out = finished.output.size() <= options.output_max;
        ::kill(-pid, SIGKILL);
        while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    }
    finished.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return finished;
}

}  // namespace roll::io
