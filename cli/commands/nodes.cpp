#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/cluster_operations.hpp"

namespace roll::cli {

Result<int> run_nodes(const Context& context, const std::string& shown) {
    if (shown == "help") return print_format_help(node_fields());
    ROLL_TRY(const Format format, parse_format(shown, node_fields(), formats_file()));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::NodesArgs{}));
    const Json nodes = reply.value("nodes", Json::array());
    if (context.json) {
        print_json(reply);
    } else if (context.parsable) {
        for (const Json& node : nodes) print(field_text(node, "node") + "\n");
    } else {
        print(nodes_text(nodes, format, look_of(context)));
        const std::string stopped = field_text(reply, "stopped");
        if (!stopped.empty())
            say("rolld starts no jobs: " + stopped + "; next: rollctl undrain --all");
    }
    return 0;
}

Result<int> run_drain(const Context& context, const std::string& node, bool all, bool draining,
                      const std::string& message) {
    if (node.empty() && !all)
        return fail(ErrorCode::InvalidArgument,
                    "no node is named; give the name of a node, or --all", "rollctl nodes");
    protocol::DrainArgs drain{.node = node};
    if (!message.empty()) drain.message = message;
    ROLL_TRY(const Json reply, draining ? change(context, drain)
                                        : change(context, protocol::UndrainArgs{.node = node}));
    if (context.json) {
        print_json(reply);
    } else {
        print(node.empty() ? draining ? "no node gets new jobs\n" : "nodes get new jobs again\n"
                           : node + (draining ? " gets no new jobs\n" : " gets new jobs again\n"));
    }
    return 0;
}

}  // namespace roll::cli
