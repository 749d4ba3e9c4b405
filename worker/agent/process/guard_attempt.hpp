// Runs one attempt in a guard process. Only guard.cpp uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/logs/program_log.hpp"
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/guard_shells.hpp"
#include "worker/agent/process/guard_talk.hpp"
#include "worker/agent/process/leash.hpp"
#include "worker/agent/process/meeting.hpp"
#include "worker/agent/process/memory_watch.hpp"

namespace roll::agent {

class Guard {
  public:
    Guard(const Leash& leash, const io::Descriptor& signals, Talk& talk, MemoryLimit memory)
        : leash_(leash),
          signals_(signals),
          talk_(talk),
          passed_(std::exchange(talk.passed, {})),
          shells_(talk),
          memory_(::getpid(), std::move(memory)) {}

    // Runs the plan. Returns once no process is left below the guard.
    void run(const GuardPlan& plan);

  private:
    Result<void> prepare(const GuardPlan& plan);
    void await_gpus(const GuardPlan& plan);
    Result<void> start(const GuardPlan& plan);
    Result<void> check_logs(const GuardPlan& plan);
    Result<pid_t> start_program(const Program& program, std::size_t index, bool own);
    Result<io::Descriptor> output_of(const std::string& log, bool own);
    Result<void> start_check(const NodeCheck& check);
    void advance(const GuardPlan& plan);
    void end_check(const NodeCheck& check, std::string trouble);
    void fail_as(const Verdict& verdict);
    void fail_preparing(const Error& error);
    void fail_with(const Error& error, bool own_programs);
    void read_orders();
    void obey_all();
    void obey(const std::string& order);
    void terminate();
    void kill_round();
    void reap();
    void take_end(pid_t pid, int status);
    void watch_memory();
    void tell_memory();
    void tell_cpu_time();
    void tell_usage();
    bool programs_ended() const;
    void run_after(const Program& program);
    void finish_logs();
    void look_into_logs(const GuardPlan& plan);
    void wait();
    void cap_logs(const GuardPlan& plan);
    void check_output(const GuardPlan& plan);
    void open_shells();
    void end_by_owner();

    const Leash& leash_;
    const io::Descriptor& signals_;
    Talk& talk_;
    std::vector<io::Descriptor> passed_;  // for each program, its stdin and its report pipe
    GuardShells shells_;
    std::vector<std::string> shell_orders_{};
    // the started programs; their environment includes MASTER_ADDR and MASTER_PORT
    std::vector<Program> running_{};
    // Programs that ended while a terminal owned the attempt. Their ends are reported when the
    // terminal's program ends.
    std::vector<std::size_t> withheld_{};
    std::string cgroup_{};
    // The files cgroup.procs through which programs enter their cgroups
    std::vector<io::Descriptor> procs_{};
    MemoryWatch memory_;
    std::int64_t memory_told_ = 0;  // memory in bytes in the last report
    Instant memory_told_at_{};
    std::optional<Instant> cpu_told_at_{};
    // usage of the processes that have ended: processor time, and blocks of 512 bytes
    std::chrono::microseconds cpu_{};
    std::int64_t blocks_read_ = 0;
    std::int64_t blocks_written_ = 0;
    std::vector<pid_t> programs_{};  // process id of each program; 0 for a program that has ended
    std::vector<std::unique_ptr<LogPipe>> pipes_{};
    pid_t group_ = 0;
    std::optional<Instant> started_at_{};
    bool started_ = false;     // true once the programs are started; all checks have then passed
    std::size_t checked_ = 0;  // number of checks that have passed
    pid_t check_ = 0;          // process id of the running check
    Instant check_until_{};
    // Result of the check that has just finished: "" if the check passed, else its failure
    std::optional<std::string> check_end_{};
    GangMeeting meeting_{};
    Instant capped_{};
    std::int64_t log_bytes_max_ = 0;
    bool killing_ = false;
    bool out_of_memory_ = false;
    bool failed_ = false;  // true if a program has failed
    bool nothing_left_ = false;
};

}  // namespace roll::agent
