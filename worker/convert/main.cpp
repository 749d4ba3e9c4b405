// roll-convert: the converter in the foreground, and the program of convert jobs.
#include <csignal>
#include <string>
#include <vector>

#include "worker/convert/commands.hpp"

namespace {

// Blocked signals stay pending: the conversion looks for them between windows, and cleans up.
bool stop_is_pending() {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1;
}

void block_stop_signals() {
    sigset_t stops;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTERM);
    ::sigaddset(&stops, SIGINT);
    ::sigprocmask(SIG_BLOCK, &stops, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    block_stop_signals();
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto command = roll::convert::parse_command_line(arguments);
    if (!command) return roll::convert::report_error(command.error(), false);
    roll::convert::Environment environment;
    environment.hooks.stopped = stop_is_pending;
    environment.check_manifest = [](const auto&) -> roll::Result<void> { return {}; };
    return roll::convert::run_command(*command, environment);
}
