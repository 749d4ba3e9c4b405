// The programs that `rollctl shell` runs in an attempt. The attempt's guard starts them next to the
// attempt's own programs: in the same cgroup, PID namespace, container and environment. When the
// attempt ends, they end too.
//
// roll-worker sends "shell COUNT ORDER", where ORDER is a protocol::TerminalOrder with `start`, and
// COUNT open descriptors: a terminal, or stdin, stdout and stderr. roll-worker sends "unshell ID"
// to end a program. The guard answers "shell ID exit STATUS" or "shell ID failed REASON".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/terminal.hpp"
#include "worker/agent/core/lease.hpp"
#include "worker/agent/process/guard_talk.hpp"

namespace roll::agent {

// Returns the program for an order: `base` with the command and the variable TERM of the order. The
// default command is the shell that the variable SHELL names, or /bin/sh if that shell cannot be
// run. In a container, the default command is always /bin/sh.
Program shell_program(Program base, const protocol::TerminalStart& start);

class GuardShells {
  public:
    explicit GuardShells(Talk& talk) : talk_(talk) {}

    // Starts the program of the order `line`. `programs` are the attempt's programs. If `programs`
    // is null, the attempt's programs do not run, and the order fails.
    void open(const std::string& line, const std::vector<Program>* programs,
              const std::vector<io::Descriptor>& cgroups);

    // Sends SIGHUP to the program of this terminal and to its children, and SIGKILL after a grace
    // time.
    void hang_up(std::uint64_t terminal, Instant now);
    void hang_up_all(Instant now);
    void kill_overdue(Instant now);

    // Handles the end of process `pid`. Returns false if `pid` is not a program that open()
    // started. `status` is the status from wait(). If `attempt_ends` is true, the program was ended
    // because its attempt ends.
    bool take_end(pid_t pid, int status, bool attempt_ends);

    // Returns true if a terminal owns the attempt and the terminal's program still runs. The
    // attempt ends when this program ends.
    bool owner_runs() const { return owner_ != 0; }
    std::optional<int> owner_status() const { return owner_status_; }

  private:
    struct Shell {
        std::uint64_t terminal = 0;
        std::optional<Instant> killed_at{};
        bool stopping = false;
    };
    void say_failed(std::uint64_t terminal, const std::string& reason);

    Talk& talk_;
    std::map<pid_t, Shell> shells_{};
    pid_t owner_ = 0;
    std::optional<int> owner_status_{};
};

}  // namespace roll::agent
