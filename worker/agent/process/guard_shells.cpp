#include "worker/agent/process/guard_shells.hpp"

#include <algorithm>
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "common/io/process.hpp"
#include "worker/agent/host/pilot.hpp"
#include "worker/agent/process/program_spawn.hpp"

namespace roll::agent {
namespace {

constexpr Millis kHangUpTime{3000};  // time from SIGHUP to SIGKILL

// Returns the user's shell on this node.
std::string shell_of(const std::vector<std::string>& variables) {
    std::string shell = value_of(variables, "SHELL");
    if (shell.empty()) shell = value_of(io::current_environment(), "SHELL");
    return !shell.empty() && ::access(shell.c_str(), X_OK) == 0 ? shell : "/bin/sh";
}

void signal_session(pid_t session, int number) {
    for (const pid_t pid : io::descendant_ids(::getpid()))
        if (::getsid(pid) == session) ::kill(pid, number);
}

}  // namespace

Program shell_program(Program base, const protocol::TerminalStart& start) {
    std::vector<std::string> words = std::move(base.enter);
    if (!start.terminal) std::erase(words, kTerminalOption);
    const bool in_container = !words.empty();
    words.insert(words.end(), start.command.begin(), start.command.end());
    if (start.command.empty())
        words.push_back(in_container ? "/bin/sh" : shell_of(base.environment));
    base.arguments = std::move(words);
    if (!start.term.empty()) {
        std::erase_if(base.environment,
                      [](const std::string& one) { return one.starts_with("TERM="); });
        base.environment.push_back("TERM=" + start.term);
    }
    return base;
}

void GuardShells::say_failed(std::uint64_t terminal, const std::string& reason) {
    talk_.say("shell " + std::to_string(terminal) + " failed " + reason);
}

void GuardShells::open(const std::string& line, const std::vector<Program>* programs,
                       const std::vector<io::Descriptor>& cgroups) {
    const ShellOrder given = take_shell_order(line, talk_);
    const std::vector<io::Descriptor>& passed = given.passed;
    const auto order = protocol::decode_terminal_order(given.order);
    if (!order || !order->start) return;
    const protocol::TerminalStart& start = *order->start;
    const auto index = static_cast<std::size_t>(start.program);
    const std::size_t streams = start.terminal ? 1 : 3;
    if (programs == nullptr || index >= programs->size() || passed.size() < streams)
        return say_failed(order->terminal, "the job's programs are not running");
    io::Spawn spawn = spawn_of(shell_program((*programs)[index], start), 0, cgroups);
    spawn.group.reset();  // a new session is also a new process group
    spawn.new_session = true;
    spawn.controlling_terminal = start.terminal;
    for (int i = 0; i < 3; ++i)
        spawn.descriptors.emplace_back(passed[start.terminal ? 0 : i].get(), i);
    const auto pid = io::spawn(spawn);
    if (!pid) return say_failed(order->terminal, pid.error().message);
    shells_[*pid] = {order->terminal};
    if (start.owns && !owner_status_) owner_ = *pid;
}

void GuardShells::hang_up(std::uint64_t terminal, Instant now) {
    for (auto& [pid, shell] : shells_) {
        if (shell.terminal != terminal || shell.killed_at) continue;
        shell.killed_at = now + kHangUpTime;
        signal_session(pid, SIGHUP);
        signal_session(pid, SIGCONT);
    }
}

void GuardShells::hang_up_all(Instant now) {
    for (auto& [pid, shell] : shells_) {
        shell.stopping = true;
        hang_up(shell.terminal, now);
    }
}

void GuardShells::kill_overdue(Instant now) {
    for (const auto& [pid, shell] : shells_)
        if (shell.killed_at && now >= *shell.killed_at) signal_session(pid, SIGKILL);
}

bool GuardShells::take_end(pid_t pid, int status, bool attempt_ends) {
    const auto found = shells_.find(pid);
    if (found == shells_.end()) return false;
    const Shell shell = found->second;
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    // The other processes of a session must not outlive its first process, so kill them now.
    if (shell.killed_at) signal_session(pid, SIGKILL);
    shells_.erase(found);
    if (pid == owner_) {
        owner_ = 0;
        owner_status_ = code;
    }
    if (attempt_ends || shell.stopping)
        say_failed(shell.terminal, "the job's attempt has ended");
    else
        talk_.say("shell " + std::to_string(shell.terminal) + " exit " + std::to_string(code));
    return true;
}

}  // namespace roll::agent
