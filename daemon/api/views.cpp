// The operations that show jobs, nodes and rolld itself, and `shutdown`.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include <unistd.h>

#include "common/protocol/view_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// Returns the arguments with the user that `@me` stands for.
template <class Args>
Args with_caller(Args args, const Caller& who) {
    args.me = acting_user(who, args.me);
    return args;
}

Result<Plan> jobs(const Context& context, const Caller& who, const protocol::JobsArgs& args) {
    ROLL_TRY(Json page,
             query::jobs(context.state, with_caller(args, who), context.hearsay(), context.now));
    return ReplyNow{std::move(page)};
}

// Hides the values of `env` in other users' jobs, even from an operator, because they may be
// secrets.
Result<Plan> show(const Context& context, const Caller& who, const protocol::ShowArgs& args) {
    ROLL_TRY(Json shown,
             query::show(context.state, with_caller(args, who), context.hearsay(), context.now));
    query::hide_private(shown, who.user, who.role == Role::Operator);
    return ReplyNow{std::move(shown)};
}

Result<Plan> events(const Context& context, const Caller&, const protocol::EventsArgs& args) {
    AwaitEvents plan{.since = args.since,
                     .limit = std::clamp(args.limit.value_or(1000), 1, protocol::kRowsMax),
                     .wait_ms = args.wait_ms};
    if (args.newest > 0) plan.since = std::max(plan.since, context.ledger.newest() - args.newest);
    if (args.id.value_or(0) == 0) return plan;
    plan.job = JobId{*args.id};
    if (context.state.jobs.contains(*plan.job)) return plan;
    return fail(ErrorCode::NotFound, "there is no job " + std::to_string(*args.id),
                "rollctl jobs -a");
}

Result<Plan> nodes(const Context& context, const Caller&, const protocol::NodesArgs& args) {
    const auto limit = args.limit.value_or(std::numeric_limits<std::size_t>::max());
    return ReplyNow{query::nodes(context.state, context.hearsay(), limit)};
}

Result<Plan> totals(const Context& context, const Caller&, const protocol::TotalsArgs&) {
    return ReplyNow{query::totals(context.state, context.now)};
}

// Without a name, shows the use of the caller. Refuses a name that nothing mentions, because it is
// probably misspelled: an empty reply would look as if the user had no jobs now.
Result<Plan> usage(const Context& context, const Caller& who, const protocol::UsageArgs& args) {
    const std::string& user = args.user.empty() ? who.user : args.user;
    if (user != who.user && !query::knows_user(context.state, user) &&
        context.role_of(user) == Role::None)
        return fail(ErrorCode::NotFound,
                    "there is no user " + user.substr(0, 60) +
                        ": no job and no key belongs to this user, and rolld.yaml does not name it",
                    "rollctl jobs -a shows the users of all jobs");
    return ReplyNow{query::usage(context.state, {.user = user}, context.now)};
}

Result<Plan> report(const Context& context, const Caller&, const protocol::ReportArgs& args) {
    ROLL_TRY(Json page, query::report(context.state, args, context.now));
    return ReplyNow{std::move(page)};
}

Result<Plan> version(const Context& context, const Caller&, const protocol::VersionArgs&) {
    return ReplyNow{
        protocol::reply_json(context.version(), protocol::VersionArgs::kOperation.reply)};
}

Result<Plan> shutdown(const Context&, const Caller&, const protocol::ShutdownArgs&) {
    return ReplyAndStop{protocol::reply_json(protocol::ShutdownReply{::getpid()},
                                             protocol::ShutdownArgs::kOperation.reply)};
}

}  // namespace

std::span<const ServedOperation> view_operations() {
    static constexpr std::array kOperations = {
        served<protocol::JobsArgs, jobs>(),        served<protocol::ShowArgs, show>(),
        served<protocol::EventsArgs, events>(),    served<protocol::NodesArgs, nodes>(),
        served<protocol::TotalsArgs, totals>(),    served<protocol::UsageArgs, usage>(),
        served<protocol::ReportArgs, report>(),    served<protocol::VersionArgs, version>(),
        served<protocol::ShutdownArgs, shutdown>()};
    return kOperations;
}

}  // namespace roll::api
