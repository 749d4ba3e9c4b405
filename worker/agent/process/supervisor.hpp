// Carries out AgentCore's decisions about processes. Each attempt has a guard, pipes to its
// programs, and a leash (deadlines shared with the guard). Reports what happens to the processes.
// Reuses guards with no process below them. Never blocks, except for the run directory's small
// files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include "common/io/process.hpp"
#include "common/protocol/terminal.hpp"
#include "worker/agent/core/agent_core.hpp"
#include "worker/agent/process/launch.hpp"
#include "worker/agent/process/leash.hpp"
#include "worker/agent/process/limits.hpp"
#include "worker/agent/process/lines.hpp"
#include "worker/agent/process/reaper.hpp"
#include "worker/agent/process/run_directory.hpp"

namespace roll::agent {

// clang-format off
struct Reported { AttemptKey attempt; int rank = 0; protocol::Report report; };
struct Exited { AttemptKey attempt; int rank = 0; ExitStatus exit; };
struct LeashRanOut { AttemptKey attempt; };
struct StartFailed { AttemptKey attempt; Verdict verdict; };
struct Matched { AttemptKey attempt; std::vector<int> patterns; };   // patterns found in the logs of a failed attempt
struct Used { AttemptKey attempt; Usage usage; };                    // resource usage of the attempt's processes
struct MemoryUsed { AttemptKey attempt; std::int64_t bytes = 0; };   // memory of the attempt's running processes
struct CpuUsed { AttemptKey attempt; std::int64_t ms = 0; };         // processor time of the attempt's processes until now
struct ShellEnded { AttemptKey attempt; std::uint64_t terminal = 0; std::optional<int> exit; std::string trouble; };
struct Gone { AttemptKey attempt; };                                 // no process of the attempt is left
// the first line on a program's report pipe that is not a report
struct Junk { AttemptKey attempt; int rank = 0; std::string line; };
// clang-format on
using ProcessEvent = std::variant<Reported, Exited, LeashRanOut, StartFailed, Matched, Used,
                                  MemoryUsed, CpuUsed, ShellEnded, Gone, Junk>;

class Supervisor {
  public:
    // `guard` is the command line of a guard process: this roll-worker's own command line with
    // --guard.
    Supervisor(std::vector<std::string> guard, LaunchSite site, RunDirectory& run_directory,
               Wall wall = {}, Limiter limiter = {}, Reaper reaper = {})
        : guard_(std::move(guard)),
          site_(std::move(site)),
          run_directory_(run_directory),
          wall_(std::move(wall)),
          limiter_(std::move(limiter)),
          reaper_(std::move(reaper)) {}

    void start(const Start& start);
    void set_leash(const SetLeash& leash);
    void tell(const AttemptKey& key, const protocol::Command& command);
    void terminate(const AttemptKey& key) { order(key, "term\n"); }
    void dump_stacks(const AttemptKey& key) { order(key, "stacks\n"); }
    void kill(const AttemptKey& key) { order(key, "kill\n"); }

    // Runs the program of a terminal in its attempt. `passed` are the program's ends of the
    // terminal or of its pipes (guard_shells.hpp). Fails with NotFound if the attempt does not run
    // here.
    Result<void> open_shell(const protocol::TerminalOrder& order,
                            const std::vector<io::Descriptor>& passed);
    void close_shell(const AttemptKey& key, std::uint64_t terminal) {
        order(key, "unshell " + std::to_string(terminal) + "\n");
    }

    void add_polled(std::vector<pollfd>& polled) const;
    // Returns the events since the last call. Call it after each wait and when a child has ended.
    std::vector<ProcessEvent> collect();
    // Starts an idle guard if there is none and another attempt may start. Keeps the reaper
    // running. Call it when there is nothing more urgent to do.
    void stand_by();
    // Ends the reaper. Requires that no attempt has a process and that none will start.
    void dismiss_reaper() { reaper_.dismiss(); }

  private:
    struct Channel {  // the pipes of one program
        io::Descriptor down{};
        io::Descriptor up{};
        LineReader lines{1 << 16};
        std::string unsent{};
        bool junk_told = false;
    };
    struct GuardProcess {
        pid_t pid = 0;
        std::uint64_t started = 0;
        io::Descriptor socket{};  // the socket to the guard; unset once the guard has ended
        LineReader lines{1 << 16};
        std::string unsent{};
        Leash leash;
    };
    struct Guarded {
        GuardProcess guard;
        std::vector<Channel> channels{};
        std::vector<Program> after{};  // programs to run if the guard is killed
        bool gone = false;             // no process of the attempt is left
    };

    Result<void> launch(const Start& start);
    Result<GuardProcess> take_guard();
    Result<GuardProcess> spawn_guard();
    void collect_idle();
    void retire(GuardProcess guard);
    void order(const AttemptKey& key, const std::string& line);
    void run_after(const Program& program);
    void collect_guard(const AttemptKey& key, Guarded& guarded);
    void collect_channel(const AttemptKey& key, int rank, Channel& channel);
    void take_line(const AttemptKey& key, const std::string& line);
    void bury(const AttemptKey& key, Guarded& guarded);
    void end_orphans();

    std::vector<std::string> guard_;
    LaunchSite site_;
    RunDirectory& run_directory_;
    Wall wall_;
    Limiter limiter_;
    Reaper reaper_;
    std::map<AttemptKey, Guarded> guarded_{};
    std::vector<GuardProcess> idle_{};  // guards without an attempt
    std::vector<pid_t> leaving_{};      // guards whose socket is closed, until they are reaped
    std::vector<ProcessEvent> events_{};
};

}  // namespace roll::agent
