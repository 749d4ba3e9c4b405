#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/slurm/arguments.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/programs.hpp"
#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

constexpr std::array kSinfoFlags = {
    SlurmFlag{'h', "noheader"},
    SlurmFlag{'N', "Node"},
    SlurmFlag{'l', "long"},
    SlurmFlag{'o', "format", true},
    SlurmFlag{'t', "states", true},
    SlurmFlag{'n', "nodes", true},
    SlurmFlag{'s', "summarize", false, true},
    SlurmFlag{'p', "partition", true, true},
    SlurmFlag{'a', "all", false, true},
};
constexpr const char* kSinfoUsual = "%9P %.5a %.10l %.6D %.6t %N";
constexpr const char* kSinfoPerNode = "%20N %.6D %.9P %6t";

std::string sinfo_state(const Json& node) {
    const int free = node.value("slots_free", 0);
    const bool idle = node.value("jobs", Json::array()).empty();
    if (node.value("silent", false)) return "down";
    if (node.value("draining", false) || node.value("excluded", Json()).is_object())
        return idle ? "drain" : "drng";
    if (idle) return "idle";
    return free == 0 ? "alloc" : "mix";
}

const char* long_state(const std::string& state) {
    static const std::map<std::string, const char*> kLongStates = {
        {"down", "down"}, {"drain", "drained"},   {"drng", "draining"},
        {"idle", "idle"}, {"alloc", "allocated"}, {"mix", "mixed"}};
    return kLongStates.at(state);
}

// Nodes that share one line of the output.
struct NodeGroup {
    std::string state;
    std::vector<Json> nodes;

    int sum(const char* key) const {
        int total = 0;
        for (const Json& node : nodes) total += node.value(key, 0);
        return total;
    }
    std::string names() const {
        std::string text;
        for (const Json& node : nodes)
            text += (text.empty() ? "" : ",") + slurm_node(field_text(node, "node"));
        return text;
    }
};

struct InfoColumn {
    const char* title;
    std::string (*value)(const NodeGroup&);
};

const std::map<char, InfoColumn>& info_columns() {
    static const std::map<char, InfoColumn> kInfoColumns = {
        {'P', {"PARTITION", [](const NodeGroup&) { return std::string("roll*"); }}},
        {'R', {"PARTITION", [](const NodeGroup&) { return std::string("roll"); }}},
        {'a', {"AVAIL", [](const NodeGroup&) { return std::string("up"); }}},
        {'l', {"TIMELIMIT", [](const NodeGroup&) { return std::string("infinite"); }}},
        {'D', {"NODES", [](const NodeGroup& g) { return std::to_string(g.nodes.size()); }}},
        {'t', {"STATE", [](const NodeGroup& g) { return g.state; }}},
        {'T', {"STATE", [](const NodeGroup& g) { return std::string(long_state(g.state)); }}},
        {'N', {"NODELIST", [](const NodeGroup& g) { return g.names(); }}},
        {'n', {"HOSTNAMES", [](const NodeGroup& g) { return g.names(); }}},
        {'c', {"CPUS", [](const NodeGroup& g) { return field_text(g.nodes[0], "slots"); }}},
        {'G',
         {"GRES",
          [](const NodeGroup& g) {
              const std::string gpus = field_text(g.nodes[0], "gpus");
              return gpus == "0" ? "(null)" : "gpu:" + gpus;
          }}},
        {'C',
         {"CPUS(A/I/O/T)",
          [](const NodeGroup& g) {
              const int all = g.sum("slots");
              const int free = g.sum("slots_free");
              const bool usable = g.state != "down" && !g.state.starts_with("dr");
              return fmt::format("{}/{}/{}/{}", all - free, usable ? free : 0, usable ? 0 : free,
                                 all);
          }}},
        {'%', {"%", [](const NodeGroup&) { return std::string("%"); }}},
    };
    return kInfoColumns;
}

bool info_wants(const Json& node, const SlurmArguments& arguments) {
    const auto states = arguments.list("states");
    const auto names = arguments.list("nodes");
    const std::string state = sinfo_state(node);
    const auto is_state = [&](const std::string& one) {
        return one == state || one == long_state(state) || one == "all";
    };
    const std::string name = slurm_node(field_text(node, "node"));
    return (states.empty() || std::ranges::any_of(states, is_state)) &&
           (names.empty() || std::ranges::find(names, name) != names.end());
}

std::vector<NodeGroup> groups_of(const Json& nodes, const SlurmArguments& arguments, bool each) {
    std::map<std::string, NodeGroup> groups;
    for (const Json& node : nodes) {
        if (!info_wants(node, arguments)) continue;
        const std::string state = sinfo_state(node);
        NodeGroup& group = groups[each ? field_text(node, "node") : state];
        group.state = state;
        group.nodes.push_back(node);
    }
    std::vector<NodeGroup> list;
    for (auto& [key, group] : groups) list.push_back(std::move(group));
    return list;
}

}  // namespace

Result<int> run_sinfo(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(const SlurmArguments arguments, read_slurm_arguments("sinfo", words, kSinfoFlags));
    const bool each = arguments.has("Node");
    std::string format = each ? kSinfoPerNode : kSinfoUsual;
    if (arguments.has("long"))
        format.replace(format.find(each ? "%6t" : "%.6t"), each ? 3 : 4, each ? "%10T" : "%.11T");
    if (arguments.has("format")) format = arguments.value("format");
    const std::vector<SlurmColumn> wanted = read_columns(format);
    for (const SlurmColumn& column : wanted)
        if (column.field != 0 && !info_columns().contains(column.field))
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("sinfo: the field %{} has no meaning in Roll; allowed: %P %R "
                                    "%a %l %D %t %T %N %n %c %C %G",
                                    column.field));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::NodesArgs{}));
    std::string text;
    if (!arguments.has("noheader"))
        text += columns_line(wanted, [&](const SlurmColumn& c) {
            return std::string(info_columns().at(c.field).title);
        });
    for (const NodeGroup& group : groups_of(reply.value("nodes", Json::array()), arguments, each))
        text += columns_line(
            wanted, [&](const SlurmColumn& c) { return info_columns().at(c.field).value(group); });
    print(text);
    return 0;
}

}  // namespace roll::cli
