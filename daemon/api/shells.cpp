// The operations on terminals in running jobs (`rollctl shell`).
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/number.hpp"
#include "common/protocol/shell_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

constexpr std::size_t kCommandBytesMax = 128 << 10;

struct ProgramOfJob {
    int node_rank = 0;
    int program = 0;  // index of the program on its node, from 0
};

int programs_per_node(const core::Job& job) {
    const bool ranked =
        job.spec.kind == spec::JobKind::Train || job.spec.kind == spec::JobKind::Resume;
    return std::max(ranked ? job.resources().ranks_per_node() : job.resources().tasks_per_node, 1);
}

// Returns the program that the arguments name.
Result<ProgramOfJob> program_of(const core::Job& job, const protocol::ShellOpenArgs& args) {
    const int each = programs_per_node(job);
    const int nodes = job.resources().nodes;
    if (args.rank) {
        if (*args.rank >= 0 && *args.rank < nodes * each)
            return ProgramOfJob{*args.rank / each, *args.rank % each};
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("rank is {}; job {} has the ranks 0 to {}", *args.rank, args.id,
                                nodes * each - 1));
    }
    if (args.node.empty()) return ProgramOfJob{};
    const auto& names = job.attempt->nodes;
    const auto named = std::ranges::find(names, args.node);
    const int index = named != names.end() ? static_cast<int>(named - names.begin())
                                           : parse_number<int>(args.node).value_or(-1);
    if (index >= 0 && index < nodes) return ProgramOfJob{index, 0};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("node is {}; job {} runs on {}", args.node.substr(0, 200), args.id,
                            fmt::join(names.begin(), names.begin() + nodes, ", ")));
}

Result<void> check_words(const protocol::ShellOpenArgs& args) {
    std::size_t bytes = args.term.size();
    bool has_nul = args.term.find('\0') != std::string::npos;
    for (const std::string& word : args.command) {
        bytes += word.size() + 1;
        has_nul |= word.find('\0') != std::string::npos;
    }
    if (bytes > kCommandBytesMax)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("the command has {} bytes; allowed: at most {}", bytes, kCommandBytesMax),
            "send the data through standard input");
    if (has_nul)
        return fail(ErrorCode::InvalidArgument, "the command contains a NUL byte; remove it");
    return {};
}

Result<Plan> open_shell(const Context& context, const Caller& who,
                        const protocol::ShellOpenArgs& args) {
    ROLL_TRY_VOID(needs_key(who, "open a terminal in a job", "rollctl shell"));
    const auto found = context.state.jobs.find(JobId{args.id});
    if (found == context.state.jobs.end())
        return fail(ErrorCode::NotFound, fmt::format("there is no job {}", args.id),
                    "rollctl jobs -a");
    const core::Job& job = found->second;
    ROLL_TRY_VOID(owns(context, who, {JobId{args.id}}));
    ROLL_TRY_VOID(check_words(args));
    if (!job.attempt || job.attempt->phase != core::AttemptPhase::Running)
        return fail(
            job.attempt ? ErrorCode::Unavailable : ErrorCode::Refused,
            fmt::format("job {} {}", args.id,
                        !job.attempt                                         ? "does not run now"
                        : job.attempt->phase == core::AttemptPhase::Starting ? "is still starting"
                                                                             : "is stopping"),
            fmt::format("rollctl show {}", args.id));
    ROLL_TRY(const ProgramOfJob program, program_of(job, args));
    const core::Place& place = job.attempt->places.at(static_cast<std::size_t>(program.node_rank));
    OpenTerminal plan;
    plan.node = job.attempt->nodes.at(static_cast<std::size_t>(program.node_rank));
    plan.opening = {.user = who.user,
                    .attempt = {JobId{args.id}, job.attempt->token},
                    .worker = place.worker,
                    .start = {.program = program.program,
                              .command = args.command,
                              .terminal = args.terminal,
                              .term = args.term,
                              .owns = args.owns},
                    .rows = std::clamp(args.rows, 0, 10'000),
                    .columns = std::clamp(args.columns, 0, 10'000)};
    return plan;
}

Result<Plan> write_shell(const Context&, const Caller& who, const protocol::ShellWriteArgs& args) {
    ROLL_TRY_VOID(needs_key(who, "open a terminal in a job", "rollctl shell"));
    return WriteTerminal{who.user, args};
}

Result<Plan> read_shell(const Context&, const Caller& who, const protocol::ShellReadArgs& args) {
    ROLL_TRY_VOID(needs_key(who, "open a terminal in a job", "rollctl shell"));
    return ReadTerminal{who.user, args};
}

}  // namespace

std::span<const ServedOperation> shell_operations() {
    static constexpr std::array kOperations = {served<protocol::ShellOpenArgs, open_shell>(),
                                               served<protocol::ShellWriteArgs, write_shell>(),
                                               served<protocol::ShellReadArgs, read_shell>()};
    return kOperations;
}

}  // namespace roll::api
