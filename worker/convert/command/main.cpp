// roll-convert: runs conversions in the foreground, or as the program of convert jobs.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/program_end.hpp"
#include "common/protocol/rank.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/convert/command/commands.hpp"
#include "worker/convert/command/launch.hpp"

namespace {

// Returns true if a stop signal has arrived. Stop signals are blocked, so they stay pending. The
// conversion calls this function between windows (groups of rows that it copies at a time).
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

// Sends a line to the worker. If no worker started this program, descriptor 3 is closed, and the
// line is lost.
void report(const std::string& line) {
    const std::string text = line + "\n";
    const ssize_t written = ::write(roll::protocol::kReportDescriptor, text.data(), text.size());
    static_cast<void>(written);
}

// Returns OMP_NUM_THREADS, but at most 16; returns 0 if the variable is not set. roll-worker sets
// this variable to the share of the cores that belongs to the job's slots.
int threads_of_the_job() {
    const char* const variable = std::getenv("OMP_NUM_THREADS");  // NOLINT: no threads yet
    return variable == nullptr ? 0 : std::clamp(std::atoi(variable), 0, 16);
}

// Logs which checkpoint is exported, because it may not be the newest one.
void say_which(std::optional<std::int64_t> best, std::int64_t taken) {
    if (!best)
        fmt::print("no checkpoint has a value of the metric of train.best: using the newest\n");
    else if (*best == taken)
        fmt::print("using the best checkpoint, step {}\n", taken);
    else
        fmt::print("warning: the best checkpoint, step {}, is missing: using step {}\n", *best,
                   taken);
}

roll::Result<std::filesystem::path> one_that_verifies(
    std::span<const std::filesystem::path> newest_first, bool best) {
    const auto step = best ? roll::checkpoint::best_step(newest_first) : std::nullopt;
    const auto order = step ? roll::checkpoint::with_step_first(newest_first, *step)
                            : std::vector(newest_first.begin(), newest_first.end());
    const auto choice = roll::checkpoint::choose_newest(order);
    for (const std::string& reason : choice.reasons) fmt::print(stderr, "{}\n", reason);
    if (best && choice.directory) say_which(step, choice.manifest.name.step);
    if (choice.directory) return *choice.directory;
    return roll::fail(
        roll::ErrorCode::Corrupt,
        "no checkpoint passes verification; the newest checkpoint: " + choice.reasons.front());
}

// Checks a directory against its manifest if it has a manifest. Only training runs write manifests.
// A manifest that cannot be opened, for example a link to itself, fails the check.
roll::Result<void> check_manifest(const std::filesystem::path& directory) {
    std::error_code error;
    const auto status =
        std::filesystem::symlink_status(directory / roll::checkpoint::kManifestFile, error);
    if (status.type() == std::filesystem::file_type::not_found) return {};
    ROLL_TRY_VOID(roll::checkpoint::verify(directory));
    return {};
}

int run(int argc, char** argv) {
    block_stop_signals();
    roll::survive_failed_reads();
    // ignore the signal; a write beyond `ulimit -f` then fails with EFBIG
    ::signal(SIGXFSZ, SIG_IGN);
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto command = roll::convert::parse_command_line(arguments);
    if (!command) return roll::convert::report_error(command.error(), false);
    if (const auto* launch = std::get_if<roll::convert::LaunchCommand>(&*command))
        return roll::convert::run_launch(
            launch->file,
            {{.stopped = stop_is_pending}, one_that_verifies, report, threads_of_the_job()});
    roll::convert::Environment environment;
    environment.hooks.stopped = stop_is_pending;
    environment.check_manifest = check_manifest;
    return roll::check_output("roll-convert", roll::convert::run_command(*command, environment));
}

}  // namespace

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-convert", [&] { return run(argc, argv); });
}
