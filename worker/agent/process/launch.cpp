#include "worker/agent/process/launch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/agent/core/attempt.hpp"
#include "worker/agent/process/batch.hpp"
#include "worker/agent/process/command.hpp"
#include "worker/agent/process/container.hpp"

namespace roll::agent {
namespace {

bool is_set(const std::vector<std::string>& variables, const std::string& name) {
    return std::ranges::any_of(variables, [start = name + "="](const std::string& variable) {
        return variable.starts_with(start);
    });
}

std::vector<std::string> join(const Environment& environment) {
    std::vector<std::string> result;
    for (const auto& [name, value] : environment) result.push_back(name + "=" + value);
    return result;
}

// Returns the value of CUDA_VISIBLE_DEVICES for the order's GPUs.
std::string visible_devices(const std::vector<int>& gpus, const std::vector<std::string>& names) {
    if (names.empty()) return fmt::format("{}", fmt::join(gpus, ","));
    std::string result;
    for (const int gpu : gpus) {
        const auto index = static_cast<std::size_t>(gpu);
        const std::string& name = index < names.size() ? names[index] : std::to_string(gpu);
        result += (result.empty() ? "" : ",") + name;
    }
    return result;
}

// Returns how much memory of each GPU may be in use before the programs start: half a GiB more than
// at the worker's start, because monitoring tools may have opened the GPU since.
std::vector<GpuRoom> gpu_room(const std::vector<int>& gpus, const LaunchSite& site) {
    constexpr std::int64_t kSlackBytes = 512LL << 20;
    std::vector<GpuRoom> room;
    for (const int gpu : gpus) {
        const auto index = static_cast<std::size_t>(gpu);
        if (index < site.gpu_used_bytes.size())
            room.push_back(
                {visible_devices({gpu}, site.gpu_names), site.gpu_used_bytes[index] + kSlackBytes});
    }
    return room;
}

// Limits a program's share of a GPU that it shares with other jobs. JAX's and Roll's variables
// limit the memory. The variable of CUDA MPS limits the multiprocessors; it has an effect only if
// the site runs CUDA MPS.
void add_gpu_share(int percent, const LaunchSite& site, Environment& environment) {
    const std::string fraction = (percent < 10 ? "0.0" : "0.") + std::to_string(percent);
    environment["ROLL_GPU_FRACTION"] = fraction;
    const auto add = [&](const char* name, const std::string& value) {
        if (!is_set(site.environment, name)) environment[name] = value;
    };
    add("XLA_PYTHON_CLIENT_MEM_FRACTION", fraction);
    add("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percent));
}

// Makes an OpenMP thread that waits go to sleep after a short time. A waiting thread that spins
// would take a core from the threads that it waits for.
void let_waiting_threads_sleep(const LaunchSite& site, Environment& environment) {
    if (is_set(site.environment, "GOMP_SPINCOUNT") || is_set(site.environment, "OMP_WAIT_POLICY"))
        return;
    environment["GOMP_SPINCOUNT"] = "1000";
}

// Returns the variables that the programs get in addition to roll-worker's environment.
Environment environment_of(const protocol::StartOrder& order, const LaunchSite& site) {
    Environment result;
    const int programs = programs_of(order);
    const int held = std::max<int>(static_cast<int>(order.slots.size()), 1);
    const int threads = order.cpus > 0 ? order.cpus / programs
                                       : site.cores * held / (std::max(site.slots, 1) * programs);
    if (!is_set(site.environment, "OMP_NUM_THREADS"))
        result["OMP_NUM_THREADS"] = std::to_string(std::max(threads, 1));
    if (site.gpus > 0 || !order.gpus.empty())
        result["CUDA_VISIBLE_DEVICES"] = visible_devices(order.gpus, site.gpu_names);
    if (order.gpu_percent < 100) add_gpu_share(order.gpu_percent, site, result);
    result["ROLL_WORKER"] = site.session;
    result["ROLL_JOB"] = std::to_string(order.attempt.job.value);
    result["ROLL_TOKEN"] = to_string(order.attempt.token);
    result["ROLL_OUTPUT"] = order.output;
    result["ROLL_NODE_RANK"] = std::to_string(order.node_rank);
    result["ROLL_NODES"] = std::to_string(order.nodes);
    return result;
}

std::string launch_content(const protocol::StartOrder& order, const LaunchSite& site) {
    protocol::Launch launch;
    launch.attempt = order.attempt;
    launch.kind = order.kind;
    launch.document = order.document;
    launch.output = order.output;
    launch.logs = logs_of(order);
    launch.nodes = order.nodes;
    launch.node_rank = order.node_rank;
    launch.ranks_per_node = programs_of(order);
    launch.gpus = order.gpus;
    launch.nonce = order.nonce;
    launch.checkpoints = order.checkpoints;
    launch.stop_step = order.stop_step;
    launch.allow_faults = site.allow_faults;
    return protocol::encode(launch);
}

// Returns the CPUs of a program. A rank gets the CPUs of one slot; any other program gets the CPUs
// of all slots.
std::vector<int> cpus_of(const protocol::StartOrder& order, const LaunchSite& site, int program) {
    const auto each = order.slots.size() / static_cast<std::size_t>(programs_of(order));
    std::vector<int> cpus;
    for (std::size_t i = program * each; i < (program + 1) * each; ++i) {
        const auto slot = static_cast<std::size_t>(order.slots[i]);
        if (slot >= site.slot_cpus.size()) continue;
        cpus.insert(cpus.end(), site.slot_cpus[slot].begin(), site.slot_cpus[slot].end());
    }
    return cpus;
}

// Returns the path of a program's log. Each rank has its own log; with `log_files: node`, all ranks
// of a node use the log of the first rank.
std::string log_of(const protocol::StartOrder& order, const Json& document, int program) {
    const bool one = document.value("log_files", "rank") == "node";
    const int rank = order.node_rank * programs_of(order) + (one ? 0 : program);
    return logs_of(order) + "/rank-" + std::to_string(rank) + ".log";
}

// Returns the path on this node of the host file. The host file lists the nodes of a gang.
std::string host_file_of(const protocol::StartOrder& order) {
    return logs_of(order) + "/hosts-" + std::to_string(order.node_rank);
}

// Returns the words of a script's first line "#!INTERPRETER [ARGUMENT]", split as execve does. Roll
// runs the interpreter itself, so that the script needs no execute permission.
std::vector<std::string> interpreter_of(const std::string& script) {
    if (!script.starts_with("#!")) return {"/bin/sh"};
    const std::string line = script.substr(2, script.find('\n') - 2);
    std::vector<std::string> words;
    constexpr const char* kBlanks = " \t\r";
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string::npos) return {"/bin/sh"};
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    const std::size_t argument = line.find_first_not_of(kBlanks, end);
    if (argument != std::string::npos)
        words.push_back(line.substr(argument, line.find_last_not_of(kBlanks) + 1 - argument));
    return words;
}

// Returns the variables of one process of a gang. The guard adds MASTER_ADDR and MASTER_PORT.
Environment gang_environment(const protocol::StartOrder& order, int local_rank) {
    const int each = programs_of(order);
    return {{"WORLD_SIZE", std::to_string(order.nodes * each)},
            {"RANK", std::to_string(order.node_rank * each + local_rank)},
            {"LOCAL_WORLD_SIZE", std::to_string(each)},
            {"LOCAL_RANK", std::to_string(local_rank)},
            {"GROUP_RANK", std::to_string(order.node_rank)},
            {"ROLL_NODELIST", fmt::format("{}", fmt::join(order.hosts, ","))},
            {"ROLL_HOSTFILE", host_file_of(order)}};
}

// Returns the files through which the processes of a gang find each other. The files' names contain
// the attempt's nonce, so that the files of an earlier job in the same output directory are not
// used by mistake.
Gang gang_of(const protocol::StartOrder& order, const LaunchSite& site) {
    Gang gang;
    gang.first = order.node_rank == 0;
    gang.address = site.address;
    gang.meeting = logs_of(order) + "/meeting-" + order.nonce + ".json";
    gang.host_file = host_file_of(order);
    for (const std::string& host : order.hosts)
        gang.hosts += host + " slots=" + std::to_string(programs_of(order)) + "\n";
    return gang;
}

Result<void> plan_command(const protocol::StartOrder& order, const LaunchSite& site,
                          CommandDocument document, Environment environment, GuardPlan& plan) {
    plan.own_programs = false;
    if (!document.script.empty()) {
        plan.directories.push_back(logs_of(order));
        plan.launch_file = logs_of(order) + "/script-" + std::to_string(order.node_rank);
        plan.launch = document.script;
        std::vector<std::string> words = interpreter_of(document.script);
        words.push_back(plan.launch_file);
        words.insert(words.end(), document.command.begin() + 1, document.command.end());
        document.command = std::move(words);
    }
    const bool in_podman = document.container && runtime_of(*document.container, site) == "podman";
    const std::vector<std::string> words = shell_words(document, in_podman);
    const std::string directory = document.workdir.empty() ? order.output : document.workdir;
    if (order.tasks_per_node > 0) {
        plan.directories.push_back(logs_of(order));
        plan.gang = gang_of(order, site);
    }
    for (int i = 0; i < programs_of(order); ++i) {
        Environment own = environment;
        if (plan.gang && !document.batch) own.merge(gang_environment(order, i));
        if (order.slurm_variables && !document.batch)
            own.merge(task_environment(order, document, site, i));
        if (document.batch) own.merge(batch_environment(order, document, site));
        for (const auto& [name, value] : document.environment) own[name] = value;
        plan.programs.push_back({words, join(own), directory, log_of(order, Json::object(), i),
                                 cpus_of(order, site, i)});
        name_logs(order, document, {directory, site.node, i}, plan);
        if (document.batch) plan_batch(order, document, site, logs_of(order), plan.programs.back());
        if (document.container) {
            const std::string name = "roll-" + std::to_string(order.attempt.job.value) + "-" +
                                     to_string(order.attempt.token) + "-" +
                                     std::to_string(order.node_rank * programs_of(order) + i) +
                                     "-" + site.session;
            const ContainerPlace place = {
                name, order.output, directory,
                environment.contains("ROLL_FILES") ? environment.at("ROLL_FILES") : "",
                !order.gpus.empty()};
            ROLL_TRY_VOID(enclose(*document.container, place, own, site, plan));
        }
    }
    // The script may start containers with srun; remove them after the attempt.
    if (document.batch)
        plan.after.push_back(removal_of_listed(
            logs_of(order) + "/steps" + kListedContainers + std::to_string(order.node_rank), site));
    return {};
}

void plan_programs(const protocol::StartOrder& order, const LaunchSite& site, const Json& document,
                   Environment environment, GuardPlan& plan) {
    let_waiting_threads_sleep(site, environment);
    const bool ranked = order.kind == "train" || order.kind == "resume";
    const bool reads_text = ranked || order.kind == "tokenize";
    const std::string program = !reads_text          ? "roll-convert"
                                : order.gpus.empty() ? "roll-rank"
                                                     : "roll-rank-cuda";
    plan.launch_file = logs_of(order) + "/launch-" + std::to_string(order.node_rank) + ".json";
    plan.launch = launch_content(order, site);
    plan.directories.push_back(logs_of(order));
    if (ranked) plan.directories.push_back(order.output + "/checkpoints");
    for (int i = 0; i < programs_of(order); ++i) {
        std::vector<std::string> arguments = {site.programs + "/" + program, "--launch",
                                              plan.launch_file};
        if (ranked) {
            arguments.push_back("--rank");
            arguments.push_back(std::to_string(order.node_rank * programs_of(order) + i));
        }
        plan.programs.push_back({std::move(arguments), join(environment), order.output,
                                 log_of(order, document, i), cpus_of(order, site, i)});
    }
}

// Returns the log patterns in the job's retry.on_log; empty if there are none.
std::vector<std::string> patterns_of(const Json& document) {
    std::vector<std::string> patterns;
    const auto retry = document.find("retry");
    if (retry == document.end() || !retry->contains("on_log")) return patterns;
    for (const Json& one : (*retry)["on_log"]) patterns.push_back(one.value("match", ""));
    return patterns;
}

// Returns the command of the check `builtin`, a part of roll-worker. The site's check tests only
// the machine. The job's check also tests the job's output directory.
std::vector<std::string> builtin_check(const protocol::StartOrder& order, const LaunchSite& site,
                                       bool is_site) {
    const bool gpus = is_site || !order.gpus.empty();
    std::vector<std::string> words = {site.programs + "/roll-worker", "--check-node",
                                      is_site ? "/tmp" : order.output, "--gpus",
                                      std::to_string(gpus ? site.gpus : 0)};
    for (const int gpu : order.gpus)
        words.push_back("--check-gpu=" + visible_devices({gpu}, site.gpu_names));
    for (const std::string& link : site.links) words.push_back("--check-link=" + link);
    return words;
}

// Returns the checks to run before the programs: the site's check, then the job's check.
std::vector<NodeCheck> checks_of(const protocol::StartOrder& order, const Json& document,
                                 const LaunchSite& site,
                                 const std::vector<std::string>& environment) {
    std::vector<NodeCheck> checks;
    const std::string node = std::to_string(order.node_rank);
    const auto add = [&](std::vector<std::string> words, int seconds, bool is_site) {
        const std::string log = logs_of(order) + (is_site ? "/site-check-" : "/check-") + node;
        checks.push_back(
            {{std::move(words), environment, order.output, log + ".log", {}}, seconds, is_site});
    };
    const bool own = site.check == std::vector<std::string>{"builtin"};
    if (!site.check.empty())
        add(own ? builtin_check(order, site, true) : site.check, site.check_seconds, true);
    const Json check = document.value("check", Json());
    if (check == "builtin") {
        add(builtin_check(order, site, false), 60, false);
    } else if (check.is_object() && check.contains("command")) {
        const auto timeout = spec::parse_duration(check.value("timeout", "60s"));
        const auto seconds = std::min<std::int64_t>(timeout ? timeout->count() : 60, 1'000'000);
        add(check["command"].get<std::vector<std::string>>(), static_cast<int>(seconds), false);
    }
    return checks;
}

std::int64_t log_bytes_max(const Json& document) {
    const Json size = document.value("log_size", Json());
    const auto bytes =
        size.is_string() ? spec::parse_size(size.get<std::string>()) : Result<std::uint64_t>(0);
    return bytes ? static_cast<std::int64_t>(*bytes) : 0;
}

// Returns the guard's plan for a start order. Throws Json::exception if the document does not have
// the structure of a job file.
Result<GuardPlan> plan_of(const protocol::StartOrder& order, const LaunchSite& site) {
    GuardPlan plan;
    ROLL_TRY(const Json document, parse_json(order.document));
    if (!document.is_object())
        return fail(ErrorCode::Corrupt, "the job's document is not a JSON object");
    plan.directories = {order.output};
    plan.patterns = patterns_of(document);
    // The memory of a shared GPU is not checked, because other jobs may use it at any time.
    if (order.gpu_percent == 100) plan.gpus = gpu_room(order.gpus, site);
    plan.gpu_wait_seconds = site.gpu_wait_seconds;
    plan.log_bytes_max = log_bytes_max(document);
    const Environment common = environment_of(order, site);
    plan.checks = checks_of(order, document, site, join(common));
    for (const NodeCheck& check : plan.checks) {
        if (check.program.arguments.empty())
            return fail(
                ErrorCode::InvalidArgument,
                "the job's check.command is empty; name the program to run, or remove the key");
    }
    // a copy: the checks do not get the variables that are added for the programs below
    Environment environment = common;
    for (const auto& [name, value] : order.secrets) environment[name] = value;
    if (order.kind == "command") {
        const std::string files =
            order.files ? files_directory(site.files, order.attempt).string() : "";
        if (order.files) environment["ROLL_FILES"] = files;
        ROLL_TRY(CommandDocument command, read_command(document, files));
        ROLL_TRY_VOID(plan_command(order, site, std::move(command), environment, plan));
    } else {
        plan_programs(order, site, document, environment, plan);
    }
    return plan;
}

}  // namespace

std::string logs_of(const protocol::StartOrder& order) {
    return order.output + "/logs/attempt-" + std::to_string(order.attempt.token.attempt);
}

Result<GuardPlan> plan_launch(const protocol::StartOrder& order, const LaunchSite& site) {
    try {
        return plan_of(order, site);
    } catch (const Json::exception& e) {
        return fail(ErrorCode::InvalidArgument,
                    std::string("the job's document is not a valid job file: ") + e.what());
    }
}

}  // namespace roll::agent
