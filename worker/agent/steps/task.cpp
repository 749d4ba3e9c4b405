#include "worker/agent/steps/task.hpp"

#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/process.hpp"

namespace roll::agent {
namespace {

Result<io::Descriptor> open_output(const std::string& file) {
    io::Descriptor output(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (output) return output;
    return fail(ErrorCode::Failed, "cannot open " + file);
}

// Removes a container of Enroot. Does nothing if it does not exist.
constexpr const char* kRemoveFromEnroot =
    "! \"$0\" list | grep -q -x -F \"$1\" || \"$0\" remove --force \"$1\"";

// Makes the task run in the step's container. If a container may remain, adds the command that
// removes it to the file kListedContainers of the node. The guard runs the commands of this file
// after the attempt.
Result<void> enclose_task(const std::string& folder, const Step& step, const Task& task,
                          io::Spawn& spawn) {
    const auto value = [&](const char* name) { return value_in(spawn.environment, name); };
    LaunchSite site;
    site.session = value("ROLL_WORKER");
    site.node = step.nodes[static_cast<std::size_t>(task.node)];
    site.container_runtimes = find_runtimes(value("PATH"));
    site.is_root = ::geteuid() == 0;
    const Container& container = *step.container;
    const bool named = !container.name.empty();
    const std::string list = folder + kListedContainers + std::to_string(job_node(step, task));
    const std::string prefix = "roll-" + value("ROLL_JOB") + "-" + value("ROLL_TOKEN") + "-step-";
    const ContainerPlace place = {
        prefix + std::to_string(step.number) + "-" + std::to_string(task.number) + "-" +
            site.session,
        value("ROLL_OUTPUT"),
        step.directory,
        value("ROLL_FILES"),
        !value("CUDA_VISIBLE_DEVICES").empty(),
        named ? prefix + "named-" + container.name + "-" + site.session : "",
        list};
    GuardPlan plan;
    plan.programs.push_back(
        {.arguments = spawn.arguments, .environment = {}, .directory = {}, .log = {}});
    ROLL_TRY_VOID(enclose(container, place, inherited(spawn.environment), site, plan));
    spawn.arguments = std::move(plan.programs.back().arguments);
    const std::string runtime = runtime_of(container, site);
    std::vector<std::string> remove = {site.container_runtimes.at(runtime)};
    if (runtime == "podman")
        remove.insert(remove.end(), {"rm", "--force", "--time=0",
                                     "--filter=name=^" + prefix + ".*-" + site.session + "$"});
    else if (named)
        remove = {"/bin/sh", "-c", kRemoveFromEnroot, remove[0], place.shared};
    else
        return {};
    std::ofstream lines(list, std::ios::app);
    if (lines << removal_line(remove, spawn.environment) << std::flush) return {};
    return fail(ErrorCode::Failed, "cannot write " + list);
}

}  // namespace

int shell_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Result<void> RunningTasks::start(const std::string& folder, const Step& step, const Task& task,
                                 const std::vector<std::string>& environment, bool inherits) {
    io::Spawn spawn;
    spawn.arguments = step.words;
    spawn.environment = merged(environment, task_variables(step, task));
    if (step.container) ROLL_TRY_VOID(enclose_task(folder, step, task, spawn));
    spawn.directory = step.directory;
    // Start the task in a process group of its own. In the script's process group, the task would
    // get each signal twice: from srun, and together with the script.
    spawn.group = 0;
    spawn.death_signal = SIGKILL;
    io::Descriptor output;
    io::Descriptor error;
    if (inherits) {
        spawn.descriptors = {{STDIN_FILENO, STDIN_FILENO},
                             {STDOUT_FILENO, STDOUT_FILENO},
                             {STDERR_FILENO, STDERR_FILENO}};
    } else {
        const auto file = [&](const std::string& own, const char* suffix) {
            return own.empty() ? task_file(folder, step.number, task.number, suffix) : own;
        };
        ROLL_TRY(output, open_output(file(task.output, ".out")));
        ROLL_TRY(error, open_output(file(task.error, ".err")));
        spawn.descriptors = {{output.get(), STDOUT_FILENO}, {error.get(), STDERR_FILENO}};
    }
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    pids_[pid] = {step.number, task.number};
    return {};
}

std::vector<RunningTasks::Ended> RunningTasks::reap() {
    std::vector<Ended> ended;
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = pids_.find(pid);
        if (found == pids_.end()) continue;
        ended.push_back({found->second.step, found->second.task, shell_status(status)});
        pids_.erase(found);
    }
    return ended;
}

std::set<int> RunningTasks::steps() const {
    std::set<int> steps;
    for (const auto& [pid, place] : pids_) steps.insert(place.step);
    return steps;
}

void RunningTasks::signal(int step, int number) const {
    for (const auto& [pid, place] : pids_)
        if (place.step == step) ::kill(-pid, number);
}

}  // namespace roll::agent
