// The operations `submit` and `forecast`.
#include <array>

#include <fmt/format.h>

#include "common/protocol/client.hpp"
#include "common/protocol/submit_operations.hpp"
#include "common/spec/document.hpp"
#include "common/spec/job_json.hpp"
#include "common/spec/sweep.hpp"
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
                    fmt::format("base is \"{}\"; give the absolute directory from which relative "
                                "paths in `job` start",
                                args.base),
                    hint);
    spec::ParsedJob parsed{.spec = {}, .problems = spec::undeliverable(args.job)};
    if (parsed.ok()) parsed = spec::parse_job(args.job.dump(), args.base);
    if (parsed.ok()) return std::move(parsed.spec);
    std::string problems;
    for (const spec::Problem& problem : parsed.problems)
        problems += (problems.empty() ? "" : "; ") + problem.path +
                    (problem.path.empty() ? "" : ": ") + problem.message;
    return fail(ErrorCode::InvalidArgument, "job: " + problems, "docs/job-file.md");
}

// Reads a submission. The user is the owner of the client's key, unless an operator names another
// user.
Result<core::Submit> read_submit(const Caller& who, const auto& args) {
    core::Submit submit;
    submit.key = args.key;
    submit.user = acting_user(who, args.user);
    ROLL_TRY(submit.spec, read_job(args));
    ROLL_TRY_VOID(spec::check_documents(submit.spec));
    ROLL_TRY_VOID(spec::check_trials(submit.spec));
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

Result<Plan> submit(const Context& context, const Caller& who, const protocol::SubmitArgs& args) {
    ROLL_TRY(core::Submit submit, read_submit(who, args));
    if (submit.key.empty() || submit.key.size() > protocol::kKeyBytesMax) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the key of a submit has {} bytes; allowed: 1 to {}",
                                submit.key.size(), protocol::kKeyBytesMax));
    }
    if (args.strict) ROLL_TRY_VOID(query::refuse_never(context.state, submit, context.now));
    const std::string user = submit.user, key = submit.key;
    const auto known = context.state.keys.find(user);
    if (known == context.state.keys.end() || !known->second.contains(key))
        ROLL_TRY_VOID(context.outputs.check(context.state, submit.spec, user + " " + key));
    const std::size_t jobs = count_jobs(submit.spec);
    RunTurn plan;
    plan.inputs.emplace_back(std::move(submit));
    plan.reply = [&outputs = context.outputs, user, key, jobs](const core::State& state,
                                                               bool changed) {
        const JobId id = state.keys.at(user).at(key);
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
    // Clear the key: with a key that the ledger has, the submission would count as repeated and
    // change nothing.
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
