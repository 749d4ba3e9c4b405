// The operations `drain` and `undrain`.
#include <array>

#include "common/protocol/cluster_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

Plan run_drain(core::Input input, const std::string& node, bool draining, const char* schema) {
    RunTurn plan;
    plan.inputs.push_back(std::move(input));
    plan.reply = [node, draining, schema](const core::State&, bool) {
        return protocol::reply_json(protocol::NodeReply{node, draining}, schema);
    };
    return plan;
}

// Without `node`, stops dispatch to all nodes, including nodes that join later.
Result<Plan> drain(const Context&, const Caller& who, const protocol::DrainArgs& args) {
    ROLL_TRY_VOID(check_line("message", args.message.value_or("")));
    core::Input input = core::Drain{args.node, true, who.user};
    if (args.node.empty())
        input = core::StopDispatch{args.message.value_or("stopped by " + who.user), who.user};
    return run_drain(std::move(input), args.node, true, protocol::DrainArgs::kOperation.reply);
}

Result<Plan> undrain(const Context&, const Caller& who, const protocol::UndrainArgs& args) {
    core::Input input = core::Drain{args.node, false, who.user};
    if (args.node.empty()) input = core::StopDispatch{std::nullopt, who.user};
    return run_drain(std::move(input), args.node, false, protocol::UndrainArgs::kOperation.reply);
}

}  // namespace

std::span<const ServedOperation> node_operations() {
    static constexpr std::array kOperations = {served<protocol::DrainArgs, drain>(),
                                               served<protocol::UndrainArgs, undrain>()};
    return kOperations;
}

}  // namespace roll::api
