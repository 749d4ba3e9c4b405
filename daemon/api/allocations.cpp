#include "daemon/api/allocations.hpp"

#include <array>

#include <fmt/format.h>

#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

using protocol::AllocationReply;
using protocol::QueueReply;

// Returns the plan that applies `input`. The input changes an allocation queue or an allocation,
// which `name` names in the reply.
template <class Reply, class Args, class Name>
Plan change_named(const Args&, const Name& name, core::Input input) {
    RunTurn plan;
    plan.inputs.push_back(std::move(input));
    plan.reply = [name](const core::State&, bool changed) {
        return protocol::reply_json(Reply{name, changed}, Args::kOperation.reply);
    };
    return plan;
}

Result<Plan> list(const Context& context, const Caller&, const protocol::AllocListArgs&) {
    Json all = query::allocations(context.state, context.hearsay(), context.now);
    all["shared"] = context.site.directory;
    return ReplyNow{std::move(all)};
}

Result<Plan> add(const Context& context, const Caller& who, const protocol::AllocAddArgs& args) {
    if (context.endpoint.starts_with("ipc:"))
        return fail(ErrorCode::Refused,
                    "rolld listens on this machine only (" + context.endpoint +
                        "), but pilots run on other machines",
                    "rollctl down; rollctl up --endpoint tcp://0.0.0.0:7070");
    ROLL_TRY(spec::PilotQueue queue, from_request(spec::pilot_queue_from_json(dump(args.queue))));
    const std::string name = queue.name;
    return change_named<QueueReply>(args, name, core::AddQueue{std::move(queue), who.user});
}

Result<Plan> pause(const Context&, const Caller& who, const protocol::AllocPauseArgs& args) {
    return change_named<QueueReply>(args, args.queue, core::PauseQueue{args.queue, true, who.user});
}

Result<Plan> resume(const Context&, const Caller& who, const protocol::AllocResumeArgs& args) {
    return change_named<QueueReply>(args, args.queue,
                                    core::PauseQueue{args.queue, false, who.user});
}

Result<Plan> remove(const Context&, const Caller& who, const protocol::AllocRemoveArgs& args) {
    return change_named<QueueReply>(args, args.queue, core::RemoveQueue{args.queue, who.user});
}

Result<Plan> close_allocation(const Context&, const Caller& who,
                              const protocol::AllocCloseArgs& args) {
    return change_named<AllocationReply>(
        args, args.allocation, core::CloseAllocation{AllocationId{args.allocation}, who.user});
}

Result<Plan> cancel_allocation(const Context&, const Caller& who,
                               const protocol::AllocCancelArgs& args) {
    return change_named<AllocationReply>(
        args, args.allocation, core::CancelAllocation{AllocationId{args.allocation}, who.user});
}

Result<Plan> show_order(const Context& context, const Caller&,
                        const protocol::AllocDryRunArgs& args) {
    ROLL_TRY(Json order, dry_run(context, args));
    return ReplyNow{std::move(order)};
}

Result<spec::PilotQueue> queue_of(const Context& context, const protocol::AllocDryRunArgs& args) {
    if (!args.spec.is_null()) return from_request(spec::pilot_queue_from_json(dump(args.spec)));
    if (!args.queue)
        return fail(ErrorCode::InvalidArgument, "alloc_dry_run needs the field `queue` or `spec`");
    const auto found = context.state.queues.find(*args.queue);
    if (found != context.state.queues.end()) return found->second.spec;
    return fail(ErrorCode::NotFound, "there is no allocation queue " + *args.queue,
                "rollctl alloc list");
}

}  // namespace

Result<Json> dry_run(const Context& context, const protocol::AllocDryRunArgs& args) {
    ROLL_TRY(const spec::PilotQueue queue, queue_of(context, args));
    const std::string key = fmt::format("{}.{}.{}", context.cluster, context.state.incarnation,
                                        context.state.next_allocation);
    const slurm::Command command = slurm::submit_command(queue, key, context.site);
    return Json{{"schema", protocol::AllocDryRunArgs::kOperation.reply},
                {"queue", queue.name},
                {"command", command.arguments},
                {"script", command.input}};
}

std::span<const ServedOperation> allocation_operations() {
    static constexpr std::array kOperations = {
        served<protocol::AllocListArgs, list>(),
        served<protocol::AllocAddArgs, add>(),
        served<protocol::AllocPauseArgs, pause>(),
        served<protocol::AllocResumeArgs, resume>(),
        served<protocol::AllocRemoveArgs, remove>(),
        served<protocol::AllocCloseArgs, close_allocation>(),
        served<protocol::AllocCancelArgs, cancel_allocation>(),
        served<protocol::AllocDryRunArgs, show_order>(),
    };
    return kOperations;
}

}  // namespace roll::api
