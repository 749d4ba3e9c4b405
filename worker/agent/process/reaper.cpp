#include "worker/agent/process/reaper.hpp"

#include <optional>
#include <sstream>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/signals.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/lines.hpp"

namespace roll::agent {
namespace {

constexpr Millis kBetweenStarts{1000};

// Writes a line to the pipe. A line is shorter than PIPE_BUF, so lines of several processes do not
// mix.
void say(int descriptor, const std::string& line) {
    if (descriptor < 0) return;
    [[maybe_unused]] const ssize_t n = ::write(descriptor, line.data(), line.size());
}

}  // namespace

// Starts the reaper if it does not run. Guards that were started earlier hold the pipe of the
// previous reaper, so the new reaper gets no line from these guards. It finds the guards' processes
// through the run directory.
void Reaper::keep(Instant now) {
    if (arguments_.empty() || now - started_ < kBetweenStarts) return;
    if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) return;
    started_ = now;
    auto pipe = io::make_pipe();
    if (!pipe) return;
    io::Spawn spawn;
    spawn.arguments = arguments_;
    spawn.environment = io::current_environment();
    spawn.descriptors = {{pipe->read.get(), STDIN_FILENO}};
    spawn.new_session = true;
    pid_ = io::spawn(spawn).value_or(0);
    pipe_ = std::move(pipe->write);
}

void Reaper::dismiss() { say(descriptor(), "dismissed\n"); }

void say_clean(int descriptor) {
    const auto self = io::find_process(::getpid());
    if (self)
        say(descriptor,
            "clean " + std::to_string(self->pid) + " " + std::to_string(self->started) + "\n");
}

static void take_line(const std::string& line, LastWords& words) {
    std::istringstream text(line);
    std::string what;
    ProcessName guard;
    text >> what;
    words.dismissed |= what == "dismissed";
    if (what == "clean" && text >> guard.pid >> guard.started) words.clean.insert(guard);
}

// Waits until roll-worker and all guards have ended, but at most kPatience after roll-worker's end.
// A guard that SIGSTOP has stopped keeps the pipe open; the reaper kills such a guard afterwards.
LastWords await_last_words(int descriptor) {
    constexpr Millis kPatience{3000};
    const pid_t worker = ::getppid();
    LastWords words;
    LineReader lines(1 << 16);
    std::optional<Instant> alone;
    for (bool open = true; open && (!alone || boot_now() - *alone < kPatience);) {
        pollfd polled{descriptor, POLLIN, 0};
        if (::poll(&polled, 1, alone ? 100 : 2000) > 0) open = lines.fill(descriptor);
        while (const auto line = lines.next()) take_line(*line, words);
        if (!alone && ::getppid() != worker) alone = boot_now();
    }
    return words;
}

}  // namespace roll::agent
