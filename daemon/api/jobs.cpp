// The operations that change jobs.
#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>

#include "common/number.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/split.hpp"
#include "common/training_request.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

protocol::JobNumbers numbers(const std::vector<JobId>& ids) {
    protocol::JobNumbers all;
    for (const JobId id : ids) all.push_back(id.value);
    return all;
}

// The jobs that a request selects. `open` has the selected jobs that have not ended, `over` those
// that have ended, and `all` has both.
struct Selected {
    std::vector<JobId> all;
    std::vector<JobId> open;
    std::vector<JobId> over;
};

// Returns the jobs that a selector names by a single id, such as 1 and 4 in "1,4,@me".
std::set<JobId> numbers_in(const std::string& selector) {
    std::set<JobId> named;
    for (const std::string& word : split_at(selector, ','))
        if (const auto number = parse_number<std::uint64_t>(word)) named.insert(JobId{*number});
    return named;
}

// Selects the jobs that a request changes. `all` means all jobs that the caller may change. Ranges,
// patterns, `all` and `@me` leave out jobs that have ended, because users do not mean ended jobs.
Result<Selected> select_own(const Context& context, const Caller& who,
                            const protocol::Selection& args) {
    const bool own = args.selector == "all" && who.role != Role::Operator;
    const std::string selector = own ? "@me" : args.selector;
    Selected selected;
    ROLL_TRY(selected.all, query::select(context.state, selector, acting_user(who, args.me)));
    const std::set<JobId> named = numbers_in(selector);
    if (selector != "last")
        std::erase_if(selected.all, [&](JobId id) {
            return core::is_over(context.state.jobs.at(id).phase) && !named.contains(id);
        });
    ROLL_TRY_VOID(owns(context, who, selected.all));
    for (const JobId id : selected.all) {
        const bool is_over = core::is_over(context.state.jobs.at(id).phase);
        (is_over ? selected.over : selected.open).push_back(id);
    }
    return selected;
}

// Returns the plan of an operation that changes the open jobs among `selected`. `add_inputs`
// appends the inputs for one job.
template <class Args, class Reply = protocol::ChangedReply>
Plan change(const Caller& who, Selected selected, const Args& args, auto add_inputs) {
    const Reply reply{numbers(selected.open), numbers(selected.over)};
    return ChangeJobs{.user = who.user,
                      .jobs = std::move(selected.open),
                      .add_inputs = std::move(add_inputs),
                      .answer = protocol::reply_json(reply, Args::kOperation.reply),
                      .wait_ms = args.wait_ms};
}

// Puts the newest job first. In another order, a job that is about to be cancelled could start in
// place of a cancelled one.
void newest_first(Plan& plan) { std::ranges::reverse(std::get<ChangeJobs>(plan).jobs); }

Result<Plan> cancel(const Context& context, const Caller& who, const protocol::CancelArgs& args) {
    ROLL_TRY_VOID(check_line("reason", args.reason));
    ROLL_TRY(Selected selected, select_own(context, who, args));
    Plan plan = change<protocol::CancelArgs, protocol::CancelReply>(
        who, std::move(selected), args,
        [reason = args.reason, by = who.user](JobId id, std::vector<core::Input>& inputs) {
            inputs.emplace_back(core::Cancel{id, reason, by});
        });
    newest_first(plan);
    return plan;
}

Result<Plan> close(const Context& context, const Caller& who, const protocol::CloseArgs& args) {
    ROLL_TRY(Selected selected, select_own(context, who, args));
    return change(who, std::move(selected), args,
                  [by = who.user](JobId id, std::vector<core::Input>& inputs) {
                      inputs.emplace_back(core::Close{id, by});
                  });
}

Result<Plan> hold(const Context& context, const Caller& who, const protocol::HoldArgs& args) {
    ROLL_TRY(Selected selected, select_own(context, who, args));
    Plan plan = change(who, std::move(selected), args,
                       [by = who.user](JobId id, std::vector<core::Input>& inputs) {
                           inputs.emplace_back(core::Hold{id, true, by});
                       });
    newest_first(plan);
    return plan;
}

Result<Plan> release(const Context& context, const Caller& who, const protocol::ReleaseArgs& args) {
    ROLL_TRY(Selected selected, select_own(context, who, args));
    return change(who, std::move(selected), args,
                  [by = who.user](JobId id, std::vector<core::Input>& inputs) {
                      inputs.emplace_back(core::Hold{id, false, by});
                  });
}

// Stops the selected jobs that run. Fails with Refused if none of them runs, or if one of them may
// not be queued again.
Result<Plan> requeue(const Context& context, const Caller& who, const protocol::RequeueArgs& args) {
    ROLL_TRY(Selected selected, select_own(context, who, args));
    std::erase_if(selected.open,
                  [&](JobId id) { return !context.state.jobs.at(id).attempt.has_value(); });
    if (selected.open.empty())
        return fail(ErrorCode::Refused,
                    "none of the selected jobs runs; requeue stops running jobs and queues them "
                    "again",
                    selected.over.empty() ? "rollctl jobs" : "rollctl resubmit JOB");
    for (const JobId id : selected.open)
        if (const auto refused = core::decide(context.state, core::Requeue{id, who.user}, {});
            !refused)
            return tl::unexpected(refused.error());
    return change(who, std::move(selected), args,
                  [by = who.user](JobId id, std::vector<core::Input>& inputs) {
                      inputs.emplace_back(core::Requeue{id, by});
                  });
}

Result<Plan> update(const Context& context, const Caller& who, const protocol::UpdateArgs& args) {
    ROLL_TRY(Selected selected, select_own(context, who, args));
    std::optional<int> priority = args.priority;
    if (args.first) priority = query::priority_before(context.state, selected.all);
    return change(
        who, std::move(selected), args,
        [priority, begin = args.begin, by = who.user](JobId id, std::vector<core::Input>& inputs) {
            if (priority) inputs.emplace_back(core::SetPriority{id, *priority, by});
            if (begin)
                inputs.emplace_back(
                    core::SetBegin{id, Time(std::chrono::milliseconds(*begin)), by});
        });
}

Result<Plan> progress(const Context&, const Caller& who, const protocol::ProgressArgs& args) {
    return AwaitChange{who.user, args.ticket, args.wait_ms};
}

// Requests a checkpoint. `rollctl show` then displays whether this checkpoint is recorded.
Result<Plan> checkpoint(const Context& context, const Caller& who,
                        const protocol::CheckpointArgs& args) {
    const JobId id{args.id};
    if (context.state.jobs.contains(id)) ROLL_TRY_VOID(owns(context, who, {id}));
    RunTurn plan;
    plan.inputs.emplace_back(core::AskCheckpoint{id, who.user});
    plan.reply = [id](const core::State& state, bool) {
        const auto& attempt = state.jobs.at(id).attempt;
        const protocol::CheckpointReply reply{
            .id = id.value,
            .token = attempt ? Json(to_string(attempt->token)) : Json(),
            .asked = attempt ? attempt->asked : 0};
        return protocol::reply_json(reply, protocol::CheckpointArgs::kOperation.reply);
    };
    return plan;
}

// Sends a request to the training. `rollctl show` displays the answer.
Result<Plan> tell(const Context& context, const Caller& who, const protocol::TellArgs& args) {
    const auto kind = find_name<RequestKind>(kRequestKinds, args.what);
    if (!kind)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("there is no request `{}`; allowed: {}", args.what,
                                fmt::join(kRequestKinds, ", ")));
    const JobId id{args.id};
    if (context.state.jobs.contains(id)) ROLL_TRY_VOID(owns(context, who, {id}));
    RunTurn plan;
    plan.inputs.emplace_back(core::AskTraining{id, *kind, args.value, who.user});
    // Search for the request in the current and in the last ended attempt. The number of the
    // request is not known in advance, because the same turn may have added other requests. The
    // turn may also have ended the attempt.
    plan.reply = [id, kind = *kind, value = args.value, by = who.user](const core::State& state,
                                                                       bool) {
        const core::Job& job = state.jobs.at(id);
        protocol::TellReply reply{.id = id.value};
        const auto look = [&](const auto& attempt) {
            for (const core::MadeRequest& made : attempt.requests) {
                if (made.request.kind != kind || made.request.value != value || made.by != by)
                    continue;
                reply.token = to_string(attempt.token);
                reply.number = made.request.number;
            }
        };
        if (!job.past.empty()) look(job.past.back());
        if (job.attempt) look(*job.attempt);
        return protocol::reply_json(reply, protocol::TellArgs::kOperation.reply);
    };
    return plan;
}

}  // namespace

std::span<const ServedOperation> job_operations() {
    static constexpr std::array kOperations = {
        served<protocol::CancelArgs, cancel>(),     served<protocol::CloseArgs, close>(),
        served<protocol::HoldArgs, hold>(),         served<protocol::ReleaseArgs, release>(),
        served<protocol::RequeueArgs, requeue>(),   served<protocol::UpdateArgs, update>(),
        served<protocol::ProgressArgs, progress>(), served<protocol::CheckpointArgs, checkpoint>(),
        served<protocol::TellArgs, tell>()};
    return kOperations;
}

}  // namespace roll::api
