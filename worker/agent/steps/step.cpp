#include "worker/agent/steps/step.hpp"

#include <algorithm>

#include <sys/stat.h>

#include "common/files.hpp"
#include "common/json.hpp"

namespace roll::agent {

// Each list of members serves to write and to read the type. The container of a step is apart,
// because it may be missing.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Task, number, node, local, output, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Step, number, words, environment, directory, nodes, job_nodes,
                                   tasks)

namespace {

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
    return text;
}

}  // namespace

std::vector<int> spread(int tasks, int nodes) {
    std::vector<int> per_node(static_cast<std::size_t>(nodes), tasks / nodes);
    for (int i = 0; i < tasks % nodes; ++i) ++per_node[static_cast<std::size_t>(i)];
    return per_node;
}

std::string repeated_text(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i;
        while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
        text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
        if (end - i > 1) text += "(x" + std::to_string(end - i) + ")";
        i = end;
    }
    return text;
}

std::vector<Task> place_tasks(const std::vector<int>& per_node, bool cyclic) {
    std::vector<Task> tasks;
    const auto add = [&](std::size_t node, int local) {
        if (local < per_node[node])
            tasks.push_back({static_cast<int>(tasks.size()), static_cast<int>(node), local});
    };
    const int most = per_node.empty() ? 0 : *std::ranges::max_element(per_node);
    for (int local = 0; cyclic && local < most; ++local)
        for (std::size_t node = 0; node < per_node.size(); ++node) add(node, local);
    for (std::size_t node = 0; !cyclic && node < per_node.size(); ++node)
        for (int local = 0; local < per_node[node]; ++local) add(node, local);
    return tasks;
}

int job_node(const Step& step, const Task& task) {
    return step.job_nodes.at(static_cast<std::size_t>(task.node));
}

std::vector<std::string> task_variables(const Step& step, const Task& task) {
    std::vector<int> per_node(step.nodes.size(), 0);
    std::string beside;  // the tasks on this task's node, as task numbers
    for (const Task& one : step.tasks) {
        ++per_node[static_cast<std::size_t>(one.node)];
        if (one.node == task.node)
            beside += (beside.empty() ? "" : ",") + std::to_string(one.number);
    }
    const std::string number = std::to_string(step.number);
    const std::string tasks = std::to_string(step.tasks.size());
    const std::string nodes = std::to_string(step.nodes.size());
    return {"SLURM_PROCID=" + std::to_string(task.number),
            "SLURM_LOCALID=" + std::to_string(task.local),
            "SLURM_NODEID=" + std::to_string(task.node),
            "SLURM_GTIDS=" + beside,
            "SLURM_NTASKS=" + tasks,
            "SLURM_NPROCS=" + tasks,
            "SLURM_NNODES=" + nodes,
            "SLURM_STEP_ID=" + number,
            "SLURM_STEPID=" + number,
            "SLURM_STEP_NUM_TASKS=" + tasks,
            "SLURM_STEP_NUM_NODES=" + nodes,
            "SLURM_STEP_NODELIST=" + join(step.nodes),
            "SLURM_STEP_TASKS_PER_NODE=" + repeated_text(per_node),
            "SLURM_TASKS_PER_NODE=" + repeated_text(per_node),
            "SLURMD_NODENAME=" + step.nodes[static_cast<std::size_t>(task.node)]};
}

std::vector<std::string> merged(std::vector<std::string> base,
                                const std::vector<std::string>& more) {
    std::vector<std::string> names;
    for (const std::string& variable : more) names.push_back(name_of(variable));
    base = without(base, names);
    base.insert(base.end(), more.begin(), more.end());
    return base;
}

std::vector<std::string> without(const std::vector<std::string>& variables,
                                 const std::vector<std::string>& names) {
    std::vector<std::string> kept;
    for (const std::string& variable : variables)
        if (std::ranges::find(names, name_of(variable)) == names.end()) kept.push_back(variable);
    return kept;
}

std::string value_in(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& variable : environment)
        if (name_of(variable) == name && variable.size() > name.size())
            return variable.substr(name.size() + 1);
    return {};
}

std::string step_folder(const std::string& folder, int number) {
    return folder + "/step-" + std::to_string(number);
}
std::string task_file(const std::string& folder, int step, int task, const char* suffix) {
    return step_folder(folder, step) + "/" + std::to_string(task) + suffix;
}
std::string ended_file(const std::string& folder) { return folder + "/ended"; }
std::string signal_file(const std::string& folder) { return folder + "/signal"; }
std::string step_signal_file(const std::string& folder, int step) {
    return step_folder(folder, step) + "/signal";
}

Result<void> write_step(const std::string& folder, const Step& step) {
    Json json = step;
    json["container"] = step.container ? json_of(*step.container) : Json();
    const mode_t before = ::umask(077);  // the environment may contain private values
    const auto written =
        write_file_atomically(step_folder(folder, step.number) + "/step.json", json.dump());
    ::umask(before);
    return written;
}

Result<std::optional<Step>> read_step(const std::string& folder, int number) {
    const auto text = read_file(step_folder(folder, number) + "/step.json");
    if (!text && text.error().code == ErrorCode::NotFound) return std::nullopt;
    if (!text) return tl::unexpected(text.error());
    ROLL_TRY(const Json json, parse_json(*text));
    try {
        auto step = json.get<Step>();
        const Json& container = json.at("container");
        if (!container.is_null()) {
            ROLL_TRY(step.container, read_container(container));
        }
        return step;
    } catch (const Json::exception& error) {
        return fail(ErrorCode::Corrupt, std::string("step: ") + error.what());
    }
}

}  // namespace roll::agent
