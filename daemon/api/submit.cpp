// The operations `submit` and `forecast`.
#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "common/protocol/client.hpp"
#include "common/protocol/file_operations.hpp"
#include "common/protocol/submit_operations.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/check/submission.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/job/job_json.hpp"
#include "common/spec/job/staged_files.hpp"
#include "common/spec/schema/array.hpp"
#include "daemon/api/allocations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// Reads the job of a submission: `spec` is what rollctl sends, `job` is the content of a job file.
Result<spec::JobSpec> read_job(const auto& args) {
    const std::string hint = "docs/web.md, section Operations";
    if (args.spec.is_null() == args.job.is_null())
        return fail(ErrorCode::InvalidArgument, "submit needs either `job` or `spec`", hint);
    if (args.job.is_null()) return from_request(spec::job_spec_of(args.spec));
    if (!args.base.starts_with('/'))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("base is \"{}\"; allowed: the absolute path of the directory from "
                                "which relative paths in `job` start",
                                args.base),
                    hint);
    spec::ParsedJob parsed = spec::check_job(args.job, args.base);
    if (parsed.ok()) return std::move(parsed.spec);
    std::string problems;
    for (const spec::Problem& problem : parsed.problems)
        problems += (problems.empty() ? "" : "; ") + spec::sentence(problem);
    return fail(ErrorCode::InvalidArgument, "job: " + problems, "docs/job-file.md");
}

// Reads a submission. The user is the owner of the client's key. An operator may name another user.
Result<core::Submit> read_submit(const Caller& who, const auto& args) {
    core::Submit submit;
    submit.key = args.key;
    submit.user = acting_user(who, args.user);
    ROLL_TRY(submit.spec, read_job(args));
    ROLL_TRY_VOID(spec::check_submission(submit.spec));
    return submit;
}

// Returns the number of jobs that a submission makes: the tasks of its array, or the jobs of its
// chain.
std::size_t count_jobs(const spec::JobSpec& spec) {
    const auto indices = spec.array ? spec::array_indices(spec.array->indices) : std::vector{0};
    return (indices ? indices->size() : 0) + spec.then.size();
}

Json submitted(const core::State& state, JobId id, std::size_t jobs, bool changed) {
    const core::Job& job = state.jobs.at(id);
    protocol::SubmitReply reply{.id = id.value,
                                .name = job.spec.name,
                                .output = job.spec.output,
                                .jobs = jobs,
                                .repeated = !changed};
    if (const auto hold = query::never(state, id, wall_clock_now()))
        reply.cannot_run = Json{{"why", hold->why}, {"remedy", hold->remedy}};
    return protocol::reply_json(reply, protocol::SubmitArgs::kOperation.reply);
}

// Checks that the size of each file is the sum of the sizes of its pieces. Requires that rolld has
// all pieces.
Result<void> check_file_sizes(const Context& context, const std::vector<spec::StagedFile>& files) {
    for (const spec::StagedFile& file : files) {
        std::uint64_t bytes = 0;
        for (const std::string& piece : file.pieces) bytes += context.pieces.size_of(piece);
        if (bytes != file.bytes)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("file {}: `bytes` is {}, but the file's pieces have {} bytes",
                                    file.name, file.bytes, bytes));
    }
    return {};
}

// Returns the pieces of the files that this job names. Excludes the files of later jobs of its
// chain.
Result<std::vector<std::string>> own_pieces(const Context& context, const spec::JobSpec& spec) {
    std::vector<std::string> pieces;
    ROLL_TRY(const Json document, spec::read_document(spec.document.text()));
    const std::vector<spec::StagedFile> files = spec::staged_files(document);
    std::uint64_t bytes = 0;
    for (const spec::StagedFile& file : files) {
        bytes += file.bytes;
        pieces.insert(pieces.end(), file.pieces.begin(), file.pieces.end());
    }
    const std::uint64_t most = context.pieces.job_bytes_max();
    if (bytes > most)
        return fail(ErrorCode::Refused, protocol::files_too_large(spec.name, bytes, most),
                    protocol::kFilesTooLargeHint);
    if (const auto missing = context.pieces.missing(pieces, std::chrono::steady_clock::now());
        !missing.empty())
        return fail(
            ErrorCode::Refused,
            fmt::format("rolld lacks {} of the {} pieces (blocks of bytes) of the files of job {}",
                        missing.size(), pieces.size(), spec.name),
            "submit the job again with rollctl, which sends the files");
    ROLL_TRY_VOID(check_file_sizes(context, files));
    return pieces;
}

// Returns the pieces of the files that the submission names. Fails with Refused if the files of a
// job are too large together, or if rolld lacks a piece.
Result<std::vector<std::string>> pieces_of(const Context& context, const spec::JobSpec& spec) {
    std::vector<std::string> pieces;
    for (const spec::JobSpec& next : spec.then) {
        ROLL_TRY(const std::vector<std::string> more, pieces_of(context, next));
        pieces.insert(pieces.end(), more.begin(), more.end());
    }
    if (!spec::has_files(spec)) return pieces;
    ROLL_TRY(const std::vector<std::string> own, own_pieces(context, spec));
    pieces.insert(pieces.end(), own.begin(), own.end());
    return pieces;
}

// Checks that the job, and each later job of its chain, can end before its deadline. rolld would at
// once cancel a job that cannot.
Result<void> check_deadlines(const spec::JobSpec& spec, Time now) {
    for (const spec::JobSpec& next : spec.then) ROLL_TRY_VOID(check_deadlines(next, now));
    if (!spec.deadline) return {};
    const Time start = std::max(now, spec.begin.value_or(now));
    if (*spec.deadline - spec.shortest_time() >= start) return {};
    const auto seconds = spec.shortest_time().count();
    const std::string limit =
        seconds == 0 ? "" : fmt::format(", and its time limit is {} s", seconds);
    return fail(ErrorCode::InvalidArgument,
                fmt::format("job {} cannot end before its deadline {}: it starts at {} or later{}",
                            spec.name, to_iso8601(*spec.deadline), to_iso8601(start), limit),
                "give a later `deadline` or a shorter `resources.time`");
}

Result<Plan> submit(const Context& context, const Caller& who, const protocol::SubmitArgs& args) {
    ROLL_TRY(core::Submit submit, read_submit(who, args));
    if (submit.key.empty() || submit.key.size() > protocol::kKeyBytesMax) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("the idempotency key of the submission has {} bytes; allowed: 1 to {}",
                        submit.key.size(), protocol::kKeyBytesMax));
    }
    if (args.strict) ROLL_TRY_VOID(query::refuse_never(context.state, submit, context.now));
    const std::string user = submit.user, key = submit.key;
    const auto known = context.state.keys.find(user);
    if (known == context.state.keys.end() || !known->second.contains(key)) {
        ROLL_TRY_VOID(check_deadlines(submit.spec, context.now));
        ROLL_TRY_VOID(context.outputs.check(context.state, submit.spec, user + " " + key));
    }
    const std::size_t jobs = count_jobs(submit.spec);
    ROLL_TRY(std::vector<std::string> pieces, pieces_of(context, submit.spec));
    RunTurn plan;
    plan.inputs.emplace_back(std::move(submit));
    plan.reply = [&outputs = context.outputs, &stored = context.pieces, pieces = std::move(pieces),
                  user, key, jobs](const core::State& state, bool changed) {
        const JobId id = state.keys.at(user).at(key);
        stored.name(pieces);
        for (std::size_t task = 0; changed && task < jobs; ++task) {
            const JobId one{id.value + task};
            outputs.note(one, state.jobs.at(one));
        }
        return submitted(state, id, jobs, changed);
    };
    return plan;
}

// Replies with the forecast of a submission. If the submission would cause an allocation request,
// the reply also has the commands of that request.
Result<Plan> forecast(const Context& context, const Caller& who,
                      const protocol::ForecastArgs& args) {
    ROLL_TRY(core::Submit submit, read_submit(who, args));
    // Clear the idempotency key. If the ledger has the key, the submission would count as repeated
    // and change nothing.
    submit.key.clear();
    ROLL_TRY(Json told, query::forecast(context.state, submit, context.now));
    if (told["orders"].is_string()) {
        ROLL_TRY(told["order"], dry_run(context, {.queue = told["orders"].get<std::string>()}));
    }
    return ReplyNow{std::move(told)};
}

}  // namespace

std::span<const ServedOperation> submit_operations() {
    static constexpr std::array kOperations = {served<protocol::SubmitArgs, submit>(),
                                               served<protocol::ForecastArgs, forecast>()};
    return kOperations;
}

}  // namespace roll::api
