#include "worker/agent/steps/srun.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/split.hpp"
#include "worker/agent/steps/srun_options.hpp"
#include "worker/agent/steps/task.hpp"

namespace roll::agent {
namespace {

std::vector<std::string> words_of(int argc, char** argv) {
    return std::vector<std::string>(argv + 1, argv + argc);
}

int complain(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    return 1;
}

int number_in(const std::vector<std::string>& environment, const char* name) {
    return std::atoi(value_in(environment, name).c_str());
}

// Returns the environment of the step's tasks. `names` is the value of --export: ALL, NONE, or
// names with or without values. Slurm's and Roll's variables are always passed on.
std::vector<std::string> exported(const std::vector<std::string>& environment,
                                  const std::string& names) {
    const auto words = words_at(names, ',');
    const auto has = [&](const std::string& word) {
        return std::ranges::find(words, word) != words.end();
    };
    std::vector<std::string> kept;
    for (const std::string& variable : environment) {
        const std::string name = variable.substr(0, variable.find('='));
        if (has("ALL") || has(name) || name.starts_with("SLURM") || name.starts_with("ROLL_") ||
            name == "CUDA_VISIBLE_DEVICES")
            kept.push_back(variable);
    }
    std::vector<std::string> set;
    for (const std::string& word : words)
        if (word.find('=') != std::string::npos) set.push_back(word);
    return merged(std::move(kept), set);
}

// Replaces %t, %n, %N, %j, %s and %u in the name of an output file.
std::string expand(const std::string& pattern, const Step& step, const Task& task,
                   const std::vector<std::string>& environment) {
    const std::string job = value_in(environment, "SLURM_JOB_ID");
    std::string name;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : 0;
        std::string value;
        if (next == 't') value = std::to_string(task.number);
        if (next == 'n') value = std::to_string(task.node);
        if (next == 'N') value = step.nodes[static_cast<std::size_t>(task.node)];
        if (next == 'j' || next == 'A') value = job;
        if (next == 'J') value = job + "." + std::to_string(step.number);
        if (next == 's') value = std::to_string(step.number);
        if (next == 'u') value = value_in(environment, "USER");
        if (next == 'x') value = value_in(environment, "SLURM_JOB_NAME");
        if (next == '%') value = "%";
        name += value.empty() ? std::string(1, pattern[i]) : value;
        if (!value.empty()) ++i;
    }
    return (std::filesystem::path(step.directory) / name).string();
}

// Reserves the next free step number by making the folder of this step.
Result<int> take_number(const std::string& folder) {
    for (int number = 0; number < 1'000'000; ++number) {
        if (::mkdir(step_folder(folder, number).c_str(), 0777) == 0) return number;
        if (errno != EEXIST) break;
    }
    return fail(ErrorCode::Failed, "srun: cannot write to " + folder);
}

// Copies the content of a growing file. If `label` is not empty, copies only whole lines and writes
// the label before each line.
class Relay {
  public:
    Relay(std::string file, int target, std::string label)
        : file_(std::move(file)),
          target_(target),
          label_(std::move(label)) {}

    void copy(bool ended) {
        if (input_ < 0) input_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
        char bytes[65536];
        for (ssize_t n = 0; input_ >= 0 && (n = ::read(input_, bytes, sizeof bytes)) > 0;)
            text_.append(bytes, static_cast<std::size_t>(n));
        if (label_.empty()) {
            put(text_);
            text_.clear();
        }
        for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;
             text_.erase(0, end + 1))
            put(label_ + text_.substr(0, end + 1));
        if (ended && !text_.empty()) put(label_ + text_ + "\n");
        if (ended) text_.clear();
    }

  private:
    void put(const std::string& text) const {
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t n = ::write(target_, text.data() + done, text.size() - done);
            if (n <= 0) return;
            done += static_cast<std::size_t>(n);
        }
    }

    std::string file_;
    int target_;
    std::string label_;
    int input_ = -1;
    std::string text_{};
};

// Runs one step to its end.
class StepRun {
  public:
    StepRun(std::string folder, Step step, const SrunOptions& options,
            std::vector<std::string> environment)
        : folder_(std::move(folder)),
          step_(std::move(step)),
          kills_(options.unequal_exit_kills),
          environment_(std::move(environment)),
          own_node_(number_in(environment_, "ROLL_NODE_RANK")) {
        inherits_ = !options.label && options.output.empty() && options.error.empty();
        for (const Task& task : step_.tasks) {
            if (inherits_ && job_node(step_, task) == own_node_) continue;
            add_relays(task, options.label);
        }
    }

    int run() {
        sigset_t signals;
        ::sigemptyset(&signals);
        for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD})
            ::sigaddset(&signals, number);
        ::sigprocmask(SIG_BLOCK, &signals, nullptr);
        if (const auto written = write_step(folder_, step_); !written)
            return complain("srun: " + written.error().message);
        start_own();
        while (ended_.size() < step_.tasks.size()) {
            const timespec wait{0, 30'000'000};
            const int number = ::sigtimedwait(&signals, nullptr, &wait);
            if (number > 0 && number != SIGCHLD) pass_on(number);
            look_for_signal();
            note_ended();
            for (Relay& relay : relays_) relay.copy(false);
        }
        for (Relay& relay : relays_) relay.copy(true);
        return status_;
    }

  private:
    // Adds relays for the task's output, except for output that goes to its own file.
    void add_relays(const Task& task, bool labelled) {
        std::string label = std::to_string(task.number);
        label.insert(0, std::to_string(step_.tasks.size() - 1).size() - label.size(), ' ');
        label = labelled ? label + ": " : "";
        const auto add = [&](const std::string& own, const char* suffix, int target) {
            if (own.empty())
                relays_.emplace_back(task_file(folder_, step_.number, task.number, suffix), target,
                                     label);
        };
        add(task.output, ".out", STDOUT_FILENO);
        add(task.error, ".err", STDERR_FILENO);
    }

    void start_own() {
        for (const Task& task : step_.tasks) {
            if (job_node(step_, task) != own_node_) continue;
            const auto started = tasks_.start(folder_, step_, task, environment_, inherits_);
            if (started) continue;
            complain("srun: error: " + started.error().message);
            end(task, started.error().code == ErrorCode::NotFound ? 127 : 126);
        }
    }

    void note_ended() {
        for (const auto& one : tasks_.reap())
            end(step_.tasks[static_cast<std::size_t>(one.task)], one.status);
        for (const Task& task : step_.tasks) {
            if (job_node(step_, task) == own_node_ || ended_.contains(task.number)) continue;
            const auto text = read_file(task_file(folder_, step_.number, task.number, ".exit"));
            if (text) end(task, std::atoi(text->c_str()));
        }
    }

    void end(const Task& task, int status) {
        ended_[task.number] = status;
        status_ = std::max(status_, status);
        if (status == 0) return;
        // copy all output of the task before reporting its end
        for (Relay& relay : relays_) relay.copy(false);
        const std::string& node = step_.nodes[static_cast<std::size_t>(task.node)];
        complain("srun: error: " + node + ": task " + std::to_string(task.number) +
                 ": Exited with exit code " + std::to_string(status));
        if (kills_ && !killed_) pass_on(SIGKILL);
        killed_ |= kills_;
    }

    // Sends a signal to all tasks of the step.
    void pass_on(int number) {
        tasks_.signal(step_.number, number);
        static_cast<void>(
            write_file_atomically(step_signal_file(folder_, step_.number),
                                  std::to_string(++passed_) + " " + std::to_string(number)));
    }

    // Passes on the signal of sbatch's --signal when it is due.
    void look_for_signal() {
        if (signalled_) return;
        const auto text = read_file(signal_file(folder_));
        if (!text) return;
        signalled_ = true;
        pass_on(std::atoi(text->c_str()));
    }

    std::string folder_;
    Step step_;
    bool kills_;
    std::vector<std::string> environment_;
    int own_node_;
    bool inherits_ = true;
    std::vector<Relay> relays_{};
    RunningTasks tasks_{};
    std::map<int, int> ended_{};  // exit status of each ended task, by task number
    int status_ = 0;
    int passed_ = 0;
    bool killed_ = false;
    bool signalled_ = false;
};

// Sets the output files of the tasks, and empties them.
void set_outputs(const SrunOptions& options, Step& step,
                 const std::vector<std::string>& environment) {
    for (Task& task : step.tasks) {
        if (!options.output.empty()) task.output = expand(options.output, step, task, environment);
        task.error = task.output;
        if (!options.error.empty()) task.error = expand(options.error, step, task, environment);
        for (const std::string& file : {task.output, task.error}) {
            struct stat status {};
            const bool device = ::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
            const int fd = file.empty() || device
                               ? -1
                               : ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
            if (fd >= 0) ::close(fd);
        }
    }
}

}  // namespace

int run_srun(int argc, char** argv) {
    auto environment = io::current_environment();
    const std::string folder = value_in(environment, "ROLL_STEPS");
    const auto options = read_srun(words_of(argc, argv));
    if (!options) return complain(options.error().message);
    if (folder.empty())
        return complain(
            "srun: this is Roll's srun, which starts tasks only in a batch script; "
            "submit the program with rollctl submit -- PROGRAM");
    if (number_in(environment, "ROLL_NODE_RANK") != 0)
        return complain(
            "srun: only the batch script itself can start steps; this process is not the batch "
            "script");
    StepSite site{words_at(value_in(environment, "SLURM_JOB_NODELIST"), ','),
                  number_in(environment, "SLURM_NTASKS"),
                  number_in(environment, "SLURM_NTASKS_PER_NODE")};
    auto step = plan_step(*options, site);
    if (!step) return complain(step.error().message);
    const auto number = take_number(folder);
    if (!number) return complain(number.error().message);
    step->number = *number;
    std::error_code error;
    step->directory = options->directory.empty() ? std::filesystem::current_path(error).string()
                                                 : options->directory;
    environment = exported(environment, options->export_names);
    step->environment = without(environment, words_at(value_in(environment, "ROLL_SECRETS"), ','));
    set_outputs(*options, *step, environment);
    return StepRun(folder, *std::move(step), *options, std::move(environment)).run();
}

int run_scontrol(int argc, char** argv) {
    const auto words = words_of(argc, argv);
    const bool hosts = words.size() >= 2 && words.size() <= 3 && words[0] == "show" &&
                       (words[1] == "hostnames" || words[1] == "hostname");
    if (!hosts)
        return complain(
            "scontrol: in a job of Roll only `scontrol show hostnames [LIST]` works; "
            "rollctl show prints a job, and rollctl update changes it");
    const std::string list =
        words.size() == 3 ? words[2] : value_in(io::current_environment(), "SLURM_JOB_NODELIST");
    const auto names = expand_hosts(list);
    if (names.empty()) return complain("scontrol: \"" + list + "\" is not a list of nodes");
    for (const std::string& name : names) std::printf("%s\n", name.c_str());
    return 0;
}

}  // namespace roll::agent
