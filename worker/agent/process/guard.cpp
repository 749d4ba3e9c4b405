#include "worker/agent/process/guard.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/io/signals.hpp"
#include "common/number.hpp"
#include "common/protocol/rank.hpp"
#include "worker/agent/host/gpu_room.hpp"
#include "worker/agent/logs/program_log.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/guard_attempt.hpp"
#include "worker/agent/process/leash.hpp"
#include "worker/agent/process/meeting.hpp"
#include "worker/agent/process/program_spawn.hpp"
#include "worker/agent/process/reaper.hpp"
#include "worker/agent/process/wall.hpp"

namespace roll::agent {

using enum Outcome;
namespace {

// longest time between two checks of the kill deadlines in the leash (leash.hpp)
constexpr int kPollMillis = 500;
// time between two rounds of SIGKILL, and between two looks for the meeting point of a gang
constexpr int kSoonMillis = 20;

}  // namespace

Result<void> Guard::prepare(const GuardPlan& plan) {
    if (passed_.size() != 2 * plan.programs.size())
        return fail(ErrorCode::Unavailable,
                    "roll-worker passed too few file descriptors for the job's programs");
    cgroup_ = plan.cgroup;
    for (const std::string& group :
         std::set<std::string>{plan.cgroup, plan.memory.cgroup, plan.cpu_cgroup}) {
        if (group.empty()) continue;
        ROLL_TRY(io::Descriptor procs, open_cgroup(group));
        procs_.push_back(std::move(procs));
    }
    for (const std::string& directory : plan.directories)
        ROLL_TRY_VOID(make_directories(directory));
    if (!plan.launch_file.empty())
        ROLL_TRY_VOID(write_file_atomically(plan.launch_file, plan.launch));
    return plan.gang ? meeting_.open(*plan.gang) : Result<void>();
}

// Returns the descriptor for a program's output. Roll's own programs write to the log itself, so
// that their output survives a killed guard. Other programs write to a pipe.
Result<io::Descriptor> Guard::output_of(const std::string& log, bool own) {
    if (own) return open_log(log);
    ROLL_TRY(std::unique_ptr<LogPipe> pipe, LogPipe::make(log, log_bytes_max_));
    pipes_.push_back(std::move(pipe));
    return pipes_.back()->take_input();
}

// A pipe's log is opened at the first output. A log that the job names is opened here, so that a
// job whose output cannot be kept does not start. Reads the orders that have arrived meanwhile,
// because a network volume may take long.
Result<void> Guard::check_logs(const GuardPlan& plan) {
    for (const Program& program : plan.programs) {
        if (!program.error_log.empty()) ROLL_TRY_VOID(check_log(program.error_log));
        if (program.link.empty()) continue;
        ROLL_TRY_VOID(check_log(program.log));
        ROLL_TRY_VOID(link_log(program.link, program.log));
    }
    pollfd polled{kGuardSocket, POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) read_orders();
    return {};
}

Result<pid_t> Guard::start_program(const Program& program, std::size_t index, bool own) {
    ROLL_TRY(const io::Descriptor log, output_of(program.log, own));
    io::Descriptor error;
    if (!program.error_log.empty()) {
        ROLL_TRY(error, output_of(program.error_log, own));
    }
    io::Spawn spawn = spawn_of(program, group_, procs_);
    spawn.descriptors = {{passed_[2 * index].get(), STDIN_FILENO},
                         {log.get(), STDOUT_FILENO},
                         {(error ? error : log).get(), STDERR_FILENO},
                         {passed_[2 * index + 1].get(), protocol::kReportDescriptor}};
    return io::spawn(spawn);
}

// Waits until the GPUs' memory is free. Gives up after `gpu_wait_seconds`, or when roll-worker
// orders the end of the attempt. Writes to the log which processes hold the memory.
void Guard::await_gpus(const GuardPlan& plan) {
    if (plan.gpus.empty() || plan.gpu_wait_seconds == 0) return;
    const std::string& log = plan.programs.front().log;
    const Instant begun = boot_now();
    const Instant until = begun + std::chrono::seconds(plan.gpu_wait_seconds);
    std::string told;
    std::vector<HeldGpu> held = held_gpus(plan.gpus);
    for (; !held.empty() && !killing_ && boot_now() < until; held = held_gpus(plan.gpus)) {
        if (told.empty()) add_to_log(log, told = "waiting for GPU memory: " + text_of(held));
        pollfd polled{kGuardSocket, POLLIN, 0};
        ::poll(&polled, 1, kPollMillis);
        if (polled.revents != 0) read_orders();
    }
    if (killing_)
        return fail_with(
            {ErrorCode::Failed, "the attempt was ended while it waited for GPU memory"}, true);
    const std::string waited = std::to_string((boot_now() - begun).count() / 1000) + " s";
    if (held.empty() && !told.empty()) add_to_log(log, "GPU memory is free after " + waited);
    if (held.empty()) return;
    add_to_log(log, "giving up after " + waited + ": " + text_of(held));
    fail_as({Infra, protocol::kExitUnfit,
             "GPU memory is not free after " + waited + ": " + text_of(held)});
}

Result<void> Guard::start(const GuardPlan& plan) {
    started_at_ = boot_now();
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
        Program program = plan.programs[i];
        meeting_.add_to(program.environment);
        ROLL_TRY(const pid_t pid, start_program(program, i, plan.own_programs));
        programs_.push_back(pid);
        running_.push_back(std::move(program));
        if (i == 0) group_ = pid;
    }
    return {};
}

Result<void> Guard::start_check(const NodeCheck& check) {
    ROLL_TRY(const io::Descriptor log, open_log(check.program.log));
    io::Spawn spawn = spawn_of(check.program, 0, procs_);
    spawn.descriptors = {{log.get(), STDOUT_FILENO}, {log.get(), STDERR_FILENO}};
    ROLL_TRY(check_, io::spawn(spawn));
    check_until_ = boot_now() + std::chrono::seconds(check.timeout_seconds);
    return {};
}

// Counts a check as passed if `trouble` is empty; otherwise fails the attempt with `trouble`.
void Guard::end_check(const NodeCheck& check, std::string trouble) {
    check_end_.reset();
    if (trouble.empty()) {
        ++checked_;
        return;
    }
    fail_as({Infra, check.site ? protocol::kExitUnhealthy : protocol::kExitUnfit,
             "the check of this node failed: " + check.program.arguments.front() + " " + trouble +
                 "; see " + check.program.log});
}

// Runs the checks one after the other, then starts the programs.
void Guard::advance(const GuardPlan& plan) {
    if (started_ || killing_) return;
    if (check_end_) end_check(plan.checks[checked_], std::move(*check_end_));
    if (check_ > 0 && boot_now() >= check_until_)
        end_check(
            plan.checks[checked_],
            "took longer than " + std::to_string(plan.checks[checked_].timeout_seconds) + " s");
    if (check_ > 0 || killing_) return;
    const bool checks = checked_ < plan.checks.size();
    const auto met = checks ? Result<bool>(true) : meeting_.met();
    if (!met) return fail_with(met.error(), true);
    if (*met && !checks)
        if (const auto kept = check_logs(plan); !kept) return fail_preparing(kept.error());
    if (killing_) return;
    if (boot_now() >= leash_.lease_ends())
        return fail_with(
            {ErrorCode::Failed, "contact with rolld was lost before the programs could start"},
            true);
    if (!*met) return;
    const auto begun = checks ? start_check(plan.checks[checked_]) : start(plan);
    started_ = !checks;
    if (!begun) fail_with(begun.error(), checks ? plan.checks[checked_].site : plan.own_programs);
    if (checks) return;
    passed_.clear();
}

// Reports the verdict and kills the attempt.
void Guard::fail_as(const Verdict& verdict) {
    talk_.say("failed " + encode(verdict));
    killing_ = true;
}

// Fails the attempt because an output cannot be written, for example because the disk is full. The
// failure counts as the job's own.
void Guard::fail_preparing(const Error& error) {
    if (error.code == ErrorCode::Unavailable) return fail_as({Infra, 1, error.message});
    if (error.code == ErrorCode::Refused)
        return fail_as({App, protocol::kExitRefused, error.message});
    fail_as({Invalid, protocol::kExitInvalid, error.message});
}

// Fails the attempt. If the job's own program cannot be run at all, a retry would fail, too, so the
// outcome is Invalid. Any other error may be absent on another node or at a later time, so the
// outcome is Infra, and the attempt is retried.
void Guard::fail_with(const Error& error, bool own_programs) {
    if (error.code == ErrorCode::Refused) return fail_preparing(error);
    const bool cannot_run =
        error.code == ErrorCode::NotFound || error.code == ErrorCode::InvalidArgument;
    if (!cannot_run || own_programs) return fail_as({Infra, 1, error.message});
    fail_as({Invalid, error.code == ErrorCode::NotFound ? 127 : 126, error.message});
}

void Guard::read_orders() {
    if (!talk_.fill()) killing_ = true;  // roll-worker has ended, so kill the attempt
    obey_all();
}

void Guard::obey_all() {
    while (const auto order = talk_.lines.next()) obey(*order);
}

void Guard::obey(const std::string& order) {
    if (order == "term") terminate();
    if (order == "kill") killing_ = true;
    if (order.starts_with("shell ")) shell_orders_.push_back(order);
    if (order.starts_with("unshell ")) {
        open_shells();  // the order to open this shell may still be pending, so carry it out first
        shells_.hang_up(parse_number<std::uint64_t>(order.substr(8)).value_or(0), boot_now());
    }
    if (order != "stacks") return;
    for (const pid_t pid : programs_)
        if (pid > 0 && ::kill(pid, SIGUSR1) == 0) ::kill(pid, SIGCONT);
}

// Carries out the orders for shells once the programs have started, or refuses them.
void Guard::open_shells() {
    if (!started_ && !killing_) return;
    const bool runs = started_ && !killing_ && !running_.empty();
    for (const std::string& order : std::exchange(shell_orders_, {}))
        shells_.open(order, runs ? &running_ : nullptr, procs_);
}

// Ends the attempt because the program of the terminal that owns the attempt has ended.
void Guard::end_by_owner() {
    const int status = *shells_.owner_status();
    failed_ |= status != 0;
    killing_ = true;
    for (const std::size_t program : withheld_)
        talk_.say("exit " + std::to_string(program) + " code " + std::to_string(status));
    withheld_.clear();
}

// Sends SIGTERM to the programs' process group. The group's id cannot be reused before all programs
// are reaped.
void Guard::terminate() {
    if (!started_) killing_ = true;
    shells_.hang_up_all(boot_now());
    if (programs_ended()) return;
    ::kill(-group_, SIGTERM);
    ::kill(-group_, SIGCONT);
    for (const pid_t pid : programs_)
        if (pid > 0 && ::getpgid(pid) != group_) ::kill(pid, SIGTERM);
}

void Guard::kill_round() {
    if (!cgroup_.empty()) kill_cgroup(cgroup_);
    for (const io::ProcessInfo& process : io::descendants(::getpid()))
        if (process.state != 'Z') ::kill(process.pid, SIGKILL);
}

// Reaps the processes that have ended, and adds up their resource usage. No usage is missing: the
// kernel adds the usage of a child to the process that reaps it, and the guard reaps all orphans.
void Guard::reap() {
    for (;;) {
        siginfo_t ended{};
        const bool asked = ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
        nothing_left_ = !asked && errno == ECHILD;
        const pid_t pid = ended.si_pid;
        if (!asked || pid == 0) return;
        const bool killed = ended.si_code == CLD_KILLED && ended.si_status == SIGKILL;
        const std::string name = killed ? name_of_process(pid) : "";
        int status = 0;
        rusage used{};
        ::wait4(pid, &status, 0, &used);
        for (const timeval& time : {used.ru_utime, used.ru_stime})
            cpu_ += std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
        blocks_read_ += used.ru_inblock;
        blocks_written_ += used.ru_oublock;
        memory_.note_ended(pid, std::int64_t{used.ru_maxrss} * 1024, name);
        take_end(pid, status);
    }
}

void Guard::take_end(pid_t pid, int status) {
    bool signaled = WIFSIGNALED(status);
    int number = signaled ? WTERMSIG(status) : WEXITSTATUS(status);
    if (shells_.take_end(pid, status, killing_)) {
        if (shells_.owner_status()) end_by_owner();
        return;
    }
    if (pid == check_) {
        check_ = 0;
        const std::string how = signaled ? "was killed by signal " : "ended with exit status ";
        check_end_ = status == 0 ? "" : how + std::to_string(number);
    }
    const auto program = std::ranges::find(programs_, pid);
    // not a program, but an orphan that became a child of this guard
    if (program == programs_.end()) return;
    *program = 0;
    const auto index = program - programs_.begin();
    if (shells_.owner_runs()) return withheld_.push_back(static_cast<std::size_t>(index));
    if (const auto owner = shells_.owner_status()) {
        signaled = false;
        number = *owner;
    }
    failed_ |= signaled || number != 0;
    talk_.say("exit " + std::to_string(index) + (signaled ? " signal " : " code ") +
              std::to_string(number));
}

// Ends the attempt if it has used more memory than its limit. The failure counts as the job's own.
void Guard::watch_memory() {
    if (!started_at_ || out_of_memory_) return;
    const auto reason = memory_.look(boot_now());
    if (!reason) {
        tell_memory();
        return tell_cpu_time();
    }
    out_of_memory_ = true;
    fail_as({App, protocol::kExitOutOfMemory, *reason});
}

// Reports "memory BYTES", the memory in use, if it has changed by more than 1/64 since the last
// report. Reports at most once in two seconds, and not at all for an attempt that ends within two
// seconds.
void Guard::tell_memory() {
    constexpr std::chrono::seconds kBetween{2};
    const Instant now = boot_now();
    if (now - std::max(memory_told_at_, *started_at_) < kBetween) return;
    const std::int64_t used = memory_.used();
    if (std::abs(used - memory_told_) <= memory_told_ / 64) return;
    memory_told_ = used;
    memory_told_at_ = now;
    talk_.say("memory " + std::to_string(used));
}

// Reports "cpu MS", the processor time of all processes of the attempt until now: two seconds after
// the start, and then every ten seconds.
void Guard::tell_cpu_time() {
    constexpr std::chrono::seconds kFirst{2}, kBetween{10};
    const Instant now = boot_now();
    if (now < (cpu_told_at_ ? *cpu_told_at_ + kBetween : *started_at_ + kFirst)) return;
    cpu_told_at_ = now;
    const auto ended = std::chrono::round<std::chrono::milliseconds>(cpu_);
    talk_.say("cpu " + std::to_string((ended + cpu_time_below(::getpid())).count()));
}

// Reports "usage CPU-MS MEMORY-PEAK WALL-MS READ WRITTEN".
void Guard::tell_usage() {
    if (!started_at_) return;
    constexpr std::int64_t kBlockBytes = 512;  // the unit of ru_inblock and ru_oublock
    const auto bytes = [](std::int64_t blocks) {
        return std::to_string(std::min(blocks, kDiskBytesMax / kBlockBytes) * kBlockBytes);
    };
    const auto cpu = std::chrono::round<std::chrono::milliseconds>(cpu_);
    talk_.say("usage " + std::to_string(cpu.count()) + " " + std::to_string(memory_.peak()) + " " +
              std::to_string((boot_now() - *started_at_).count()) + " " + bytes(blocks_read_) +
              " " + bytes(blocks_written_));
}

// Runs a program that removes what remains of the attempt besides processes, such as a container.
// Waits for the program for at most 20 s.
void Guard::run_after(const Program& program) {
    const auto pid = io::spawn(spawn_of(program, 0, {}));
    const Instant until = boot_now() + std::chrono::seconds(20);
    while (pid && ::waitpid(*pid, nullptr, WNOHANG) == 0 && boot_now() < until)
        ::poll(nullptr, 0, kSoonMillis);
    for (nothing_left_ = false, reap(); !nothing_left_; reap()) {
        kill_round();
        ::poll(nullptr, 0, kSoonMillis);
    }
}

// Finishes copying the logs. If both the copying and the program failed, the error of the copying
// becomes the reason. The program may have failed only because it could not write its log.
void Guard::finish_logs() {
    for (const auto& pipe : pipes_)
        if (const auto copied = pipe->finish(); !copied && failed_) fail_preparing(copied.error());
}

void Guard::look_into_logs(const GuardPlan& plan) {
    if (!failed_ || plan.patterns.empty()) return;
    std::vector<std::string> logs;
    for (const Program& program : plan.programs) {
        logs.push_back(program.log);
        if (!program.error_log.empty()) logs.push_back(program.error_log);
    }
    std::string line = "matched";
    for (const int found : scan_logs(plan.patterns, logs)) line += " " + std::to_string(found);
    talk_.say(line);
}

// Fails the attempt if its programs ended well but its output directory was deleted meanwhile.
void Guard::check_output(const GuardPlan& plan) {
    const std::string& output = plan.directories.front();
    const bool done = started_ && programs_ended() && !failed_;
    if (!done || ::access(output.c_str(), F_OK) == 0 || errno != ENOENT) return;
    talk_.say("failed " +
              encode(Verdict{App, 1,
                             "the job's output directory " + output +
                                 " was deleted while the job ran; the job's logs are lost"}));
}

// Caps the logs that programs write directly. Other logs are capped by their LogPipe.
void Guard::cap_logs(const GuardPlan& plan) {
    if (!plan.own_programs || boot_now() - capped_ < std::chrono::seconds(1)) return;
    capped_ = boot_now();
    for (const Program& program : plan.programs) cap_log(program.log, plan.log_bytes_max);
}

bool Guard::programs_ended() const {
    return std::ranges::all_of(programs_, [](pid_t pid) { return pid == 0; });
}

void Guard::run(const GuardPlan& plan) {
    log_bytes_max_ = plan.log_bytes_max;
    if (const auto prepared = prepare(plan); !prepared)
        fail_preparing(prepared.error());
    else
        await_gpus(plan);
    for (;;) {
        while (io::next_signal(signals_)) continue;
        reap();
        watch_memory();
        obey_all();  // Some orders may have arrived together with the plan, so read orders again.
        advance(plan);
        open_shells();
        cap_logs(plan);
        if (!killing_ && boot_now() >= leash_.killed_at()) {
            talk_.say("leash");
            killing_ = true;
        }
        // kill all processes that the ended programs have left behind
        killing_ |= started_ && programs_ended() && !shells_.owner_runs();
        shells_.kill_overdue(boot_now());
        if (killing_ && nothing_left_) break;
        if (killing_) kill_round();
        talk_.flush();
        wait();
    }
    open_shells();
    for (const Program& program : plan.after) run_after(program);
    finish_logs();
    check_output(plan);
    look_into_logs(plan);
    tell_usage();
}

// Waits for a signal, output or an order. While killing, ignores orders, because no order matters
// any more.
void Guard::wait() {
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
    for (const auto& pipe : pipes_) polled.push_back({pipe->waited(), POLLIN, 0});
    if (!killing_) polled.push_back({kGuardSocket, POLLIN, 0});
    const bool soon = killing_ || meeting_.waits();
    const Millis most = std::min(Millis{kPollMillis}, memory_.interval());
    ::poll(polled.data(), polled.size(), soon ? kSoonMillis : static_cast<int>(most.count()));
    for (std::size_t i = 0; i < pipes_.size(); ++i)
        if (polled[i + 1].revents != 0) pipes_[i]->begin(polled[i + 1].revents);
    if (!killing_ && polled.back().revents != 0) read_orders();
}

int run_guard() {
    ::setsid();
    io::become_subreaper();
    const bool has_reaper = ::fcntl(kGuardReaper, F_SETFD, FD_CLOEXEC) == 0;
    const io::Descriptor reaper(has_reaper ? kGuardReaper : -1);
    // Queue the signals: before its attempt ends, only SIGKILL may end a guard.
    const io::Descriptor signals =
        io::queue_signals({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,
                           SIGTSTP, SIGTTIN, SIGTTOU});
    for (const int fd : {kGuardSocket, kGuardLeash}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    const auto leash = Leash::open(io::Descriptor(kGuardLeash));
    if (!leash) return 1;
    Talk talk;
    while (const auto plan = next_plan(talk)) {
        Guard(*leash, signals, talk, plan->memory).run(*plan);
        talk.say("gone");
    }
    say_clean(reaper.get());
    return 0;
}

}  // namespace roll::agent
