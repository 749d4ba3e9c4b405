#include "worker/agent/process/batch.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "worker/agent/host/pilot.hpp"

namespace roll::agent {
namespace {

// Returns the node's name without the suffix that makes the name of a pilot unique: "n3.a5" is
// "n3".
std::string slurm_name(const std::string& node, bool pilot) {
    const std::size_t end = node.rfind(".a");
    const bool numbered = end != std::string::npos && end + 2 < node.size() &&
                          node.find_first_not_of("0123456789", end + 2) == std::string::npos;
    return pilot && numbered ? node.substr(0, end) : node;
}

// Returns `number` for each of `nodes` nodes in Slurm's notation: "4(x2)" for 4 on each of 2 nodes.
std::string on_each(int number, int nodes) {
    return std::to_string(number) + (nodes > 1 ? "(x" + std::to_string(nodes) + ")" : "");
}

// Returns the number of tasks on each node: "2,1", "4(x2)".
std::string tasks_text(const BatchScript& batch, int nodes) {
    if (batch.tasks == 0) return on_each(std::max(batch.tasks_per_node, 1), nodes);
    const int each = batch.tasks / nodes;
    const int more = batch.tasks % nodes;  // number of nodes with `each` + 1 tasks
    if (more == 0) return on_each(each, nodes);
    return on_each(each + 1, more) + "," + on_each(each, nodes - more);
}

void add_array(const protocol::StartOrder& order, const CommandDocument& document,
               Environment& result) {
    const auto place = array_place(order, document);
    if (!place || place->indices.empty()) return;
    const std::size_t colon = document.array.find(':');
    result["SLURM_ARRAY_JOB_ID"] = std::to_string(place->first);
    result["SLURM_ARRAY_TASK_ID"] = std::to_string(place->index);
    result["SLURM_ARRAY_TASK_MIN"] = std::to_string(place->indices.front());
    result["SLURM_ARRAY_TASK_MAX"] = std::to_string(place->indices.back());
    result["SLURM_ARRAY_TASK_COUNT"] = std::to_string(place->indices.size());
    result["SLURM_ARRAY_TASK_STEP"] =
        colon == std::string::npos ? "1" : std::to_string(std::atoi(&document.array[colon + 1]));
}

void add_nodes(const protocol::StartOrder& order, const BatchScript& batch, const LaunchSite& site,
               Environment& result) {
    const bool pilot = !value_of(site.environment, "SLURMD_NODENAME").empty();
    std::string list;
    for (const std::string& host : order.hosts)
        list += (list.empty() ? "" : ",") + slurm_name(host, pilot);
    const int slots = std::max<int>(static_cast<int>(order.slots.size()), 1);
    for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) result[name] = list;
    for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"})
        result[name] = std::to_string(order.nodes);
    result["SLURMD_NODENAME"] = slurm_name(site.node, pilot);
    result["SLURM_CPUS_ON_NODE"] = std::to_string(slots);
    result["SLURM_JOB_CPUS_PER_NODE"] = on_each(slots, order.nodes);
    result["SLURM_TASKS_PER_NODE"] = tasks_text(batch, order.nodes);
    if (order.gpus.empty()) return;
    result["SLURM_GPUS_ON_NODE"] = std::to_string(order.gpus.size());
    result["SLURM_JOB_GPUS"] = fmt::format("{}", fmt::join(order.gpus, ","));
}

void add_given(const BatchScript& batch, int nodes, Environment& result) {
    const auto add = [&](const char* name, int value) {
        if (value > 0) result[name] = std::to_string(value);
    };
    const int tasks = batch.tasks > 0 ? batch.tasks : batch.tasks_per_node * nodes;
    add("SLURM_NTASKS", tasks);
    add("SLURM_NPROCS", tasks);
    add("SLURM_NTASKS_PER_NODE", batch.tasks_per_node);
    add("SLURM_CPUS_PER_TASK", batch.cpus_per_task);
    add("SLURM_CPUS_PER_GPU", batch.cpus_per_gpu);
    add("SLURM_MEM_PER_NODE", batch.mem_per_node);
    add("SLURM_MEM_PER_CPU", batch.mem_per_cpu);
    add("SLURM_MEM_PER_GPU", batch.mem_per_gpu);
    if (batch.append) result["SLURM_OPEN_MODE"] = "a";
    if (!batch.export_names.empty()) result["SLURM_EXPORT_ENV"] = batch.export_names;
    if (!batch.dependency.empty()) result["SLURM_JOB_DEPENDENCY"] = batch.dependency;
    if (!batch.submit_directory.empty()) result["SLURM_SUBMIT_DIR"] = batch.submit_directory;
    if (!batch.submit_host.empty()) result["SLURM_SUBMIT_HOST"] = batch.submit_host;
}

// Returns the names of the SLURM_* variables in roll-worker's environment that the script must not
// get, because they describe the pilot's Slurm job. `set` has the variables of the script's own
// job.
std::set<std::string> stale(const LaunchSite& site, const std::vector<std::string>& set) {
    static const std::set<std::string> kKept = {
        "SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN"};
    std::set<std::string> names;
    for (const std::string& variable : site.environment)
        if (variable.starts_with("SLURM_")) names.insert(variable.substr(0, variable.find('=')));
    for (const std::string& variable : set) names.erase(variable.substr(0, variable.find('=')));
    for (const std::string& name : kKept) names.erase(name);
    return names;
}

// Returns the name of the user that runs the jobs. Service managers and containers may leave USER
// out.
std::string user_of(const LaunchSite& site) {
    const std::string user = value_of(site.environment, "USER");
    const passwd* const entry = user.empty() ? ::getpwuid(::geteuid()) : nullptr;
    return entry == nullptr ? user : entry->pw_name;
}

}  // namespace

// Returns the SLURM_* variables of the job. Numbers of tasks come from `batch`, the options of the
// script.
static Environment job_environment(const protocol::StartOrder& order,
                                   const CommandDocument& document, const BatchScript& batch,
                                   const LaunchSite& site) {
    Environment result;
    for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"})
        result[name] = std::to_string(order.attempt.job.value);
    result["SLURM_JOB_NAME"] = name_of(document);
    result["SLURM_JOB_PARTITION"] = "roll";
    result["SLURM_JOB_USER"] = user_of(site);
    if (value_of(site.environment, "SLURM_CLUSTER_NAME").empty())
        result["SLURM_CLUSTER_NAME"] = "roll";
    const auto attempt = order.attempt.token.attempt;
    if (attempt > 1) result["SLURM_RESTART_COUNT"] = std::to_string(attempt - 1);
    add_nodes(order, batch, site, result);
    add_given(batch, order.nodes, result);
    add_array(order, document, result);
    const std::string pilot = value_of(site.environment, "SLURM_JOB_ID");
    if (!pilot.empty()) result["ROLL_PILOT_SLURM_JOB_ID"] = pilot;
    return result;
}

Environment batch_environment(const protocol::StartOrder& order, const CommandDocument& document,
                              const LaunchSite& site) {
    Environment result = job_environment(order, document, *document.batch, site);
    for (const char* name : {"SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"})
        result[name] = "0";
    if (!document.secrets.empty())
        result["ROLL_SECRETS"] = fmt::format("{}", fmt::join(document.secrets, ","));
    return result;
}

Environment task_environment(const protocol::StartOrder& order, const CommandDocument& document,
                             const LaunchSite& site, int local_rank) {
    BatchScript asked;
    asked.tasks_per_node = order.tasks_per_node;
    Environment result = job_environment(order, document, asked, site);
    const int first = order.node_rank * order.tasks_per_node;
    std::string ranks;  // ranks of the tasks on this node
    for (int i = 0; i < order.tasks_per_node; ++i)
        ranks += (i > 0 ? "," : "") + std::to_string(first + i);
    result["SLURM_NODEID"] = std::to_string(order.node_rank);
    result["SLURM_PROCID"] = std::to_string(first + local_rank);
    result["SLURM_LOCALID"] = std::to_string(local_rank);
    result["SLURM_GTIDS"] = ranks;
    return result;
}

void plan_batch(const protocol::StartOrder& order, const CommandDocument& document,
                const LaunchSite& site, const std::string& logs, Program& program) {
    const BatchScript& batch = *document.batch;
    std::vector<std::string> words = {site.programs + "/roll-worker",
                                      order.node_rank == 0 ? "batch" : "steps",
                                      "--folder=" + logs + "/steps"};
    const auto add = [&](const std::string& option, const std::string& value) {
        words.push_back("--" + option + "=" + value);
    };
    if (order.node_rank > 0) {
        add("node", std::to_string(order.node_rank));
        program.arguments = std::move(words);
        return;
    }
    if (!batch.input.empty()) add("input", batch.input);
    if (!batch.append && !document.output.empty()) add("truncate", program.log);
    if (!batch.append && !program.error_log.empty()) add("truncate", program.error_log);
    if (batch.signal > 0 && order.time_limit_seconds > 0) {
        const auto after = order.time_limit_seconds - batch.signal_before;
        add("signal", std::to_string(batch.signal));
        add("signal-after", std::to_string(std::max<std::int64_t>(after, 0)));
        if (batch.signal_to_script) words.emplace_back("--to-script");
    }
    for (const std::string& name : stale(site, program.environment)) add("unset", name);
    words.emplace_back("--");
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
    program.arguments = std::move(words);
}

}  // namespace roll::agent
