#include "worker/agent/steps/batch.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "worker/agent/steps/step.hpp"
#include "worker/agent/steps/task.hpp"

namespace roll::agent {
namespace {

constexpr int kReportDescriptor = 3;  // protocol::kReportDescriptor, passed on to the script

struct BatchFlags {
    std::string folder;
    std::string input;
    std::vector<std::string> truncate;
    int signal = 0;
    int signal_after = 0;  // time from the script's start to the signal, in seconds
    bool to_script = false;
    std::vector<std::string> unset;  // names of variables that the script does not get
    std::vector<std::string> words;
};

// Writes the programs srun and scontrol, which the script finds in its PATH.
Result<std::string> write_tools(const std::string& folder) {
    const std::string bin = folder + "/bin";
    ROLL_TRY_VOID(make_directories(bin));
    for (const char* name : {"srun", "scontrol"}) {
        const std::string file = bin + "/" + name;
        ROLL_TRY_VOID(write_file_atomically(
            file, "#!/bin/sh\nexec '" + io::own_program() + "' " + name + " \"$@\"\n"));
        std::error_code error;
        std::filesystem::permissions(file, std::filesystem::perms(0755), error);
    }
    return bin;
}

// Creates an output file, or empties an existing one, as sbatch does. Does not change devices.
void truncate(const std::string& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0) ::close(fd);
}

Result<pid_t> start_script(const BatchFlags& flags, const std::string& bin) {
    io::Spawn spawn;
    spawn.arguments = flags.words;
    const auto environment = without(io::current_environment(), flags.unset);
    spawn.environment = merged(
        environment, {"PATH=" + bin + ":" + value_in(environment, "PATH"),
                      "ROLL_STEPS=" + flags.folder, "SLURM_JOB_UID=" + std::to_string(::getuid()),
                      "SLURM_JOB_GID=" + std::to_string(::getgid())});
    io::Descriptor input;
    spawn.descriptors = {{STDOUT_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}};
    if (::fcntl(kReportDescriptor, F_GETFD) >= 0)
        spawn.descriptors.emplace_back(kReportDescriptor, kReportDescriptor);
    if (!flags.input.empty()) {
        input = io::Descriptor(::open(flags.input.c_str(), O_RDONLY | O_CLOEXEC));
        if (!input)
            return fail(ErrorCode::NotFound,
                        "--input is " + flags.input + ", which cannot be read");
        spawn.descriptors.emplace_back(input.get(), STDIN_FILENO);
    }
    return io::spawn(spawn);
}

sigset_t block_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD})
        ::sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    return set;
}

// Waits for the script. Sends the signal of --signal when it is due. Returns the wait status.
int wait_for(pid_t script, const BatchFlags& flags, const sigset_t& signals) {
    using std::chrono::steady_clock;
    const auto due = steady_clock::now() + std::chrono::seconds(flags.signal_after);
    bool sent = flags.signal == 0;
    for (int status = 0;;) {
        if (::waitpid(script, &status, WNOHANG) == script) return status;
        const timespec wait{sent ? 3600 : 0, sent ? 0 : 200'000'000};
        ::sigtimedwait(&signals, nullptr, &wait);
        if (sent || steady_clock::now() < due) continue;
        sent = true;
        if (flags.to_script)
            ::kill(script, flags.signal);
        else
            static_cast<void>(
                write_file_atomically(signal_file(flags.folder), std::to_string(flags.signal)));
    }
}

// Ends this process in the same way as the script: by an exit status or by a signal.
int end_as(int status) {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    std::signal(number, SIG_DFL);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, number);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(number);
    return 128 + number;
}

int tell_error(const Error& error) {
    std::fprintf(stderr, "roll-worker: %s\n", error.message.c_str());
    return error.code == ErrorCode::NotFound ? 127 : 126;
}

int run_script(const BatchFlags& flags) {
    const sigset_t signals = block_signals();
    for (const std::string& file : flags.truncate) truncate(file);
    const auto bin = write_tools(flags.folder);
    if (!bin) return tell_error(bin.error());
    const auto script = start_script(flags, *bin);
    const int status = script ? wait_for(*script, flags, signals) : 0;
    static_cast<void>(write_file_atomically(ended_file(flags.folder), ""));
    return script ? end_as(status) : tell_error(script.error());
}

// Starts the tasks of all steps on one node.
class StepServer {
  public:
    StepServer(std::string folder, int node)
        : folder_(std::move(folder)),
          node_(node),
          environment_(io::current_environment()) {}

    int run() {
        const sigset_t signals = block_signals();
        while (!path_exists(ended_file(folder_))) {
            start_new();
            for (const auto& one : tasks_.reap()) tell_exit(one.step, one.task, one.status);
            const timespec wait{0, 50'000'000};
            const int number = ::sigtimedwait(&signals, nullptr, &wait);
            // Do not pass SIGTERM on to the tasks, because the srun of each step does so.
            stopping_ |= number == SIGTERM;
            if (stopping_ && tasks_.none()) return 0;
            pass_signals();
        }
        return 0;
    }

  private:
    // Starts the tasks of the new steps. Skips a step whose folder has no step file yet: its srun
    // writes the file later, or never if the srun was killed.
    void start_new() {
        for (int number = next_; path_exists(step_folder(folder_, number)); ++number) {
            if (started_.contains(number)) continue;
            const auto step = read_step(folder_, number);
            if (step && !*step) continue;
            if (!step) tell_error(step.error());
            started_.insert(number);
            if (!step) continue;
            for (const Task& task : (*step)->tasks)
                if (job_node(**step, task) == node_) start(**step, task);
        }
        while (started_.contains(next_)) ++next_;
    }

    void start(const Step& step, const Task& task) {
        const auto started = tasks_.start(folder_, step, task, environment_of(step), false);
        if (!started) tell_exit(step.number, task.number, tell_error(started.error()));
    }

    void tell_exit(int step, int task, int status) const {
        const auto told =
            write_file_atomically(task_file(folder_, step, task, ".exit"), std::to_string(status));
        if (!told) tell_error(told.error());
    }

    // Returns the step's environment with this node's own variables and secrets.
    std::vector<std::string> environment_of(const Step& step) const {
        std::vector<std::string> own;
        for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROLL_NODE_RANK", "ROLL_WORKER"}) {
            const std::string value = value_in(environment_, name);
            if (!value.empty()) own.push_back(std::string(name) + "=" + value);
        }
        return merged(merged(environment_, step.environment), own);
    }

    void pass_signals() {
        for (const int step : tasks_.steps()) {
            const auto text = read_file(step_signal_file(folder_, step));
            if (!text || passed_[step] == *text) continue;
            passed_[step] = *text;
            tasks_.signal(step, std::atoi(text->substr(text->find(' ') + 1).c_str()));
        }
    }

    std::string folder_;
    int node_;
    std::vector<std::string> environment_;
    RunningTasks tasks_{};
    int next_ = 0;  // the lowest number of a step that is not started yet
    std::set<int> started_{};
    bool stopping_ = false;
    std::map<int, std::string> passed_{};  // last signal that was passed on, by step
};

}  // namespace

int run_batch(int argc, char** argv) {
    CLI::App app;
    BatchFlags flags;
    app.add_option("--folder", flags.folder)->required();
    app.add_option("--input", flags.input);
    app.add_option("--truncate", flags.truncate)->allow_extra_args(false);
    app.add_option("--signal", flags.signal);
    app.add_option("--signal-after", flags.signal_after);
    app.add_flag("--to-script", flags.to_script);
    app.add_option("--unset", flags.unset)->allow_extra_args(false);
    app.add_option("words", flags.words)->required();
    CLI11_PARSE(app, argc, argv);
    return run_script(flags);
}

int run_steps(int argc, char** argv) {
    CLI::App app;
    std::string folder;
    int node = 0;
    app.add_option("--folder", folder)->required();
    app.add_option("--node", node)->required();
    CLI11_PARSE(app, argc, argv);
    return StepServer(std::move(folder), node).run();
}

}  // namespace roll::agent
