#include "cli/commands/shell.hpp"

#include <csignal>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/client/terminal_session.hpp"
#include "cli/commands/commands.hpp"
#include "cli/job/environment.hpp"
#include "cli/job/staged_files.hpp"
#include "cli/show/follow.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/io/process.hpp"
#include "common/io/signals.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/protocol/shell_operations.hpp"
#include "common/protocol/submit_operations.hpp"
#include "common/spec/job/job_json.hpp"

namespace roll::cli {
namespace {

constexpr std::chrono::milliseconds kPoll{250};
constexpr std::chrono::seconds kSayAfter{1};
constexpr std::chrono::seconds kEndPatience{2};  // longest wait for the end of a cancelled job

// The command of an interactive job. The command ends when the job's terminal ends, or after a
// minute if no terminal is opened.
const std::vector<std::string> kHolder = {
    "/bin/sh", "-c", "sleep 60; echo 'no terminal was opened within 60 s' >&2; exit 1"};

// Returns the number of a signal that asks this program to end, if one has arrived.
std::optional<int> end_signal(const io::Descriptor& signals) {
    while (const auto signal = io::next_signal(signals))
        if (*signal != SIGWINCH) return signal;
    return std::nullopt;
}

Result<std::uint64_t> submit_holder(const Context& context, Daemon& daemon,
                                    const JobOptions& options) {
    if (options.nodes.value_or(1) != 1 || options.tasks.value_or(1) != 1 || !options.array.empty())
        return fail(ErrorCode::InvalidArgument,
                    "an interactive job has one node and one process; leave out --nodes, "
                    "--tasks-per-node and --array",
                    "rollctl submit --nodes 2 -- PROGRAM, then rollctl shell JOB --rank 1");
    ROLL_TRY(Source source, command_source(kHolder));
    source.label = "the interactive job";
    source.document["name"] = "shell";
    ROLL_TRY_VOID(apply_options(options, source));
    capture_environment(source.document, io::current_environment(), user_name());
    PieceBytes pieces;
    ROLL_TRY_VOID(read_files(source.document, source.base, pieces));
    ROLL_TRY(const std::vector<spec::JobSpec> specs, parse_sources({source}));
    ROLL_TRY_VOID(send_files(daemon, {source.document}, pieces));
    const protocol::SubmitArgs args{
        .key = draw_key(), .user = user_name(), .spec = spec::json_of(specs.front())};
    ROLL_TRY(const Json reply, daemon.ask(args));
    const auto id = reply.value("id", std::uint64_t{0});
    if (!context.json) say(fmt::format("job {} is queued", id));
    return id;
}

Result<protocol::ShellOpenReply> open_terminal(Daemon& daemon, protocol::ShellOpenArgs args) {
    if (args.terminal) {
        const TerminalSize size = terminal_size();
        args.rows = static_cast<int>(size.rows);
        args.columns = static_cast<int>(size.columns);
        const char* const term = std::getenv("TERM");
        args.term = term == nullptr ? "" : term;
    }
    ROLL_TRY(const Json reply, daemon.ask(args));
    return protocol::ShellOpenReply{reply.value("terminal", std::uint64_t{0}),
                                    reply.value("node", std::string{})};
}

// Returns an error that says how the job has ended.
Error how_it_ended(const Json& job) {
    const std::string id = field_text(job, "id"), state = field_text(job, "state");
    return {ErrorCode::Failed,
            fmt::format("job {} {}{}: {}", id, state == "cancelled" ? "was " : "", state,
                        field_text(job, "reason")),
            "rollctl show " + id};
}

// Cancels the job, because its terminal has ended with `error`, and returns `error`. If somebody
// else has cancelled the job, for example before its programs started, returns how_it_ended()
// instead.
Error cancel_after(Daemon& daemon, std::uint64_t id, Error error) {
    constexpr const char* kReason = "the terminal of this interactive job ended";
    // If rolld does not answer, do not wait for the end of the job.
    if (!daemon.ask(protocol::CancelArgs{{.selector = std::to_string(id)}, kReason})) return error;
    JobWatch watch(daemon, id);
    for (const auto until = std::chrono::steady_clock::now() + kEndPatience;
         std::chrono::steady_clock::now() < until;) {
        const auto job = watch.look(kPoll);
        if (!job) break;
        if (!is_over(*job)) continue;
        const bool by_others = field_text(*job, "state") == "cancelled" &&
                               field_text(*job, "reason").find(kReason) == std::string::npos;
        return by_others ? how_it_ended(*job) : error;
    }
    return error;
}

// Waits until the job runs. While the job waits, prints the reason.
Result<void> await_start(Daemon& daemon, std::uint64_t id, const io::Descriptor& signals) {
    const auto begun = std::chrono::steady_clock::now();
    JobWatch watch(daemon, id);
    std::string told;
    for (;;) {
        ROLL_TRY(const Json job, watch.look(kPoll));
        const std::string state = field_text(job, "state");
        const Json attempts = job.value("attempts", Json::array());
        if (state == "running" && !attempts.empty() &&
            field_text(attempts.back(), "state") == "running")
            return {};
        if (is_over(job)) return tl::unexpected(how_it_ended(job));
        if (end_signal(signals))
            return fail(ErrorCode::Failed,
                        fmt::format("interrupted; the interactive job {} is cancelled", id));
        const std::string waits = field_text(job, "waiting");
        if (waits == told || std::chrono::steady_clock::now() - begun < kSayAfter) continue;
        say(fmt::format("job {} waits: {}", id, told = waits));
    }
}

Result<int> run_interactive(const Context& context, Daemon& daemon, const ShellOptions& options,
                            protocol::ShellOpenArgs args, const io::Descriptor& signals) {
    ROLL_TRY(args.id, submit_holder(context, daemon, options.job));
    args.owns = true;
    const auto cancel = [&](Error error) -> Result<int> {
        return tl::unexpected(cancel_after(daemon, args.id, std::move(error)));
    };
    if (auto started = await_start(daemon, args.id, signals); !started)
        return cancel(std::move(started).error());
    const auto opened = open_terminal(daemon, args);
    if (!opened) return cancel(opened.error());
    auto ended = run_session(daemon, opened->terminal, signals, args.terminal);
    return ended ? ended : cancel(std::move(ended).error());
}

}  // namespace

void add_shell_options(CLI::App& command, ShellOptions& options) {
    command.add_option(
        "JOB", options.selector,
        "Id or name of the job, or `last`. Without JOB, starts a new interactive job on one "
        "node, with the options of `submit` that are listed here");
    CLI::Option* rank =
        command.add_option("--rank", options.rank, "Rank whose node and environment are used [0]");
    command.add_option("--node", options.node, "Node of the job: name, or number from 0")
        ->excludes(rank);
    add_queue_options(command, options.job);
    // An interactive job has one node and one process, so the help leaves these options out.
    for (const char* const name : {"--nodes", "--tasks-per-node", "--array"})
        command.get_option(name)->group("");
}

Result<int> run_shell(const Context& context, const ShellOptions& options,
                      const std::vector<std::string>& program) {
    const io::Descriptor signals = queue_session_signals();
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    protocol::ShellOpenArgs args;
    args.rank = options.rank;
    args.node = options.node;
    args.command = program;
    args.terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (options.selector.empty())
        return run_interactive(context, daemon, options, std::move(args), signals);
    ROLL_TRY(args.id, one_job(daemon, options.selector));
    ROLL_TRY(const auto opened, open_terminal(daemon, args));
    return run_session(daemon, opened.terminal, signals, args.terminal);
}

}  // namespace roll::cli
