#include "cli/commands/tell.hpp"

#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/client/daemon.hpp"
#include "cli/job/options.hpp"
#include "cli/show/follow.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/number.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/training_request.hpp"

namespace roll::cli {
namespace {

constexpr auto kCheckpointPoll = std::chrono::seconds(5);

// Returns the checkpoint that answers request number `asked` to the attempt `token`. A checkpoint
// that answers a later request also answers this request. Returns nullptr if there is no such
// checkpoint yet.
const Json* answering(const Json& checkpoints, const std::string& token, std::uint64_t asked) {
    for (const Json& one : checkpoints) {
        if (field_text(one, "token") == token && one.value("asked", std::uint64_t{0}) >= asked)
            return &one;
    }
    return nullptr;
}

// Returns request number `number` to the attempt `token`; nullptr if the request does not exist or
// is not answered yet.
const Json* answered(const Json& attempts, const std::string& token, std::uint64_t number) {
    for (const Json& attempt : attempts) {
        if (field_text(attempt, "token") != token || !attempt.contains("requests")) continue;
        for (const Json& one : attempt["requests"])
            if (one.value("number", std::uint64_t{0}) == number && one.value("answered", false))
                return &one;
    }
    return nullptr;
}

bool runs(const Json& job, const std::string& token) {
    const Json attempts = job.value("attempts", Json::array());
    return !attempts.empty() && field_text(attempts.back(), "token") == token &&
           field_text(attempts.back(), "state") != "ended";
}

// Waits until find(job) returns the answer to a request to the attempt `token`. If the attempt ends
// first, the error message ends with `ended`. If there is no answer within `patience`, the message
// ends with `late`.
Result<Json> await(Daemon& daemon, std::uint64_t id, const std::string& token,
                   std::chrono::seconds patience,
                   const std::function<const Json*(const Json& job)>& find,
                   const std::string& ended, const std::string& late) {
    const auto until = std::chrono::steady_clock::now() + patience;
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(const Json job, watch.look(kCheckpointPoll));
        if (const Json* found = find(job)) return *found;
        if (!runs(job, token))
            return fail(ErrorCode::Failed,
                        fmt::format("the attempt of job {} ended before it {}", id, ended),
                        fmt::format("rollctl show {}", id));
        if (std::chrono::steady_clock::now() >= until)
            return fail(ErrorCode::Failed, fmt::format("job {} {}", id, late),
                        fmt::format("rollctl show {}, or try again with a longer --timeout", id));
    }
}

Result<Json> await_checkpoint(Daemon& daemon, std::uint64_t id, const Json& request,
                              std::chrono::seconds patience) {
    const std::string token = field_text(request, "token");
    const auto asked = request.value("asked", std::uint64_t{0});
    return await(
        daemon, id, token, patience,
        [&](const Json& job) {
            return job.contains("checkpoints") ? answering(job["checkpoints"], token, asked)
                                               : nullptr;
        },
        "saved a checkpoint",
        fmt::format("saved no checkpoint within {} s; the job may still save one",
                    patience.count()));
}

Result<Json> await_answer(Daemon& daemon, std::uint64_t id, const Json& request,
                          std::chrono::seconds patience) {
    const std::string token = field_text(request, "token");
    const auto number = request.value("number", std::uint64_t{0});
    return await(
        daemon, id, token, patience,
        [&](const Json& job) {
            return job.contains("attempts") ? answered(job["attempts"], token, number) : nullptr;
        },
        fmt::format("carried out request {}", number),
        fmt::format("did not answer request {} within {} s; the job may still carry out the "
                    "request, unless its roll-worker is of an older release",
                    number, patience.count()));
}

}  // namespace

void add_tell_options(CLI::App& checkpoint, CLI::App& tell, TellOptions& options) {
    for (CLI::App* const one : {&checkpoint, &tell}) {
        one->add_option("JOB", options.job, "Id or name of the job, or `last`")->required();
        one->add_option("--timeout", options.timeout, "How long to wait for the answer [10m]");
    }
    tell.add_option("REQUEST", options.words,
                    "save, evaluate, stop-at-epoch, stop-at-step N, log-every N or profile N")
        ->required();
}

Result<int> run_tell(const Context& context, const TellOptions& options) {
    const std::vector<std::string>& words = options.words;
    const std::string& what = words.front();
    if (what == "save" && words.size() == 1) return run_checkpoint(context, options);
    const auto kind = find_name<RequestKind>(kRequestKinds, what);
    if (!kind)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("there is no request `{}`; allowed: save, {}", what,
                                fmt::join(kRequestKinds, ", ")),
                    "rollctl tell --help");
    std::int64_t value = 0;
    if (const std::int64_t most = value_most(*kind); words.size() == 1 && most > 0)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("request {} needs a number, 1 to {}", what, most),
                    fmt::format("for example: rollctl tell {} {} 100", options.job, what));
    if (words.size() > 1) {
        const auto number = parse_number<std::int64_t>(words[1]);
        if (!number || words.size() > 2)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("request {}: `{}` is not a single number", what,
                                    fmt::join(words.begin() + 1, words.end(), " ")),
                        "rollctl tell --help");
        value = *number;
    }
    ROLL_TRY(const std::chrono::seconds patience, duration_of("--timeout", options.timeout));
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, options.job));
    ROLL_TRY(const Json request,
             daemon.ask(protocol::TellArgs{.id = id, .what = what, .value = value}));
    ROLL_TRY(const Json answer, await_answer(daemon, id, request, patience));
    if (context.json) {
        print_json({{"schema", "roll.tell/1"},
                    {"job", id},
                    {"number", answer.value("number", Json())},
                    {"step", answer.value("step", Json())},
                    {"answer", answer.value("answer", Json())}});
    } else {
        print(
            fmt::format("step {}: {}\n", field_text(answer, "step"), field_text(answer, "answer")));
    }
    return 0;
}

Result<int> run_checkpoint(const Context& context, const TellOptions& options) {
    ROLL_TRY(const std::chrono::seconds patience, duration_of("--timeout", options.timeout));
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, options.job));
    ROLL_TRY(const Json request, daemon.ask(protocol::CheckpointArgs{.id = id}));
    ROLL_TRY(const Json saved, await_checkpoint(daemon, id, request, patience));
    if (context.json) {
        print_json({{"schema", "roll.checkpoint/1"},
                    {"job", id},
                    {"step", saved.value("step", Json())},
                    {"directory", saved.value("directory", Json())}});
    } else {
        print(field_text(saved, "directory") + "\n");
    }
    return 0;
}

}  // namespace roll::cli
