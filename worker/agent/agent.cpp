#include "worker/agent/agent.hpp"

#include <algorithm>
#include <csignal>
#include <set>

#include <poll.h>

#include "common/overload.hpp"
#include "common/time.hpp"
#include "worker/agent/core/heartbeat_grid.hpp"
#include "worker/agent/host/pilot.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

// longest wait of the loop; an action that is due at a certain time is late by at most this time
constexpr Millis kPoll{500};
// delay of a heartbeat that reports a change that is not urgent; the heartbeat can then report
// several changes
constexpr Millis kSoon{20};
// Minimum interval between heartbeats that report changes. The interval grows by 1 ms for every
// kRunningAMilli running attempts, because every heartbeat lists all running attempts.
constexpr Millis kBetween{2};
constexpr std::size_t kRunningAMilli = 20;
// longest wait until rolld acknowledges that the last attempts have ended
constexpr Millis kFarewell{3000};
// This roll-worker ends if rolld refuses it for this time because another roll-worker of the same
// node is alive. The time is long enough for rolld to notice that an earlier roll-worker of the
// node was killed.
constexpr Millis kRefusedFor{6000};

}  // namespace

Result<void> Agent::run() {
    parts_.manager.tell("READY=1\nSTATUS=runs jobs for rolld");
    while (!over()) {
        turn();
        wait();
    }
    if (parts_.core.idle()) parts_.supervisor.dismiss_reaper();
    if (refused_.empty() || end_signals_ > 0) return {};
    return fail(ErrorCode::Refused, refused_);
}

void Agent::turn() {
    now_ = boot_now();
    // Slurm sends a signal to all processes of an allocation, so it may also end a program. Collect
    // the ends of programs before the signals, but handle the signals before the ends. A program
    // that the signal has ended then counts as stopped.
    const std::vector<ProcessEvent> process_events = parts_.supervisor.collect();
    take_signals();
    connect();
    hear();
    fetch_files();
    mind_allocation();
    for (const VolumeEvent& event : volume_.collect()) take(event);
    for (const ProcessEvent& event : process_events) take(event);
    for (const auto& news : terminals_.collect(parts_.supervisor, now_)) parts_.link.send(news);
    parts_.core.on_clock(now_);
    carry_out();
    if (const std::string beacon = parts_.core.look_due(now_); !beacon.empty())
        volume_.look(beacon);
    send_heartbeat();
    // Read answers again: the socket is edge-triggered, and sending may have consumed its input
    // event.
    hear();
    carry_out();
    fetch_files();
    if (end_signals_ == 0) parts_.supervisor.stand_by();
}

void Agent::wait() {
    std::vector<pollfd> polled = {{parts_.signals.get(), POLLIN, 0},
                                  {volume_.descriptor(), POLLIN, 0}};
    if (parts_.link.descriptor() >= 0) polled.push_back({parts_.link.descriptor(), POLLIN, 0});
    parts_.supervisor.add_polled(polled);
    const Instant now = boot_now();
    terminals_.add_polled(polled, now);
    const Millis due =
        std::min({heartbeat_due() - now, terminals_.pause(now), parts_.core.hold_left(now)});
    const Millis time = std::clamp(due, Millis{0}, kPoll);
    ::poll(polled.data(), polled.size(), static_cast<int>(time.count()));
}

void Agent::take_signals() {
    while (const auto signal = io::next_signal(parts_.signals)) {
        // ignore SIGCHLD: the end of a guard is noticed on its socket
        if (*signal == SIGCHLD) continue;
        ++end_signals_;
        parts_.log.info("signal {}: ends", *signal);
        parts_.manager.tell("STOPPING=1\nSTATUS=stopping the running attempts");
        parts_.core.on_drain(now_);
    }
}

void Agent::hear() {
    while (auto answer = parts_.link.receive(now_)) {
        take_refusal(*answer);
        if (!refused_.empty()) continue;
        const std::set<AttemptKey> named = named_by(*answer);
        parts_.files.hold_back(*answer);
        parts_.core.on_answer(*answer, now_);
        parts_.files.keep_only(
            [&](const AttemptKey& key) { return named.contains(key) || parts_.core.has(key); });
        answered_at_ = now_;
    }
    for (protocol::TerminalOrder& order : parts_.link.take_terminal_orders())
        terminals_.take(std::move(order), parts_.supervisor, now_);
    for (const protocol::Piece& piece : parts_.link.take_pieces()) parts_.files.take(piece);
}

// Records whether rolld accepts this roll-worker. If rolld refuses it now but may accept it later,
// this roll-worker waits and writes the refusal to its log.
void Agent::take_refusal(const protocol::Answer& answer) {
    if (answer.refused != refused_ && answer.keep_asking)
        parts_.log.warn("waits: {}", answer.refused);
    refused_ = answer.refused;
    if (refused_.empty() || answer.keep_asking) refused_since_.reset();
    if (refused_.empty()) return;
    parts_.core.on_refusal(answer);
    if (!answer.keep_asking && !refused_since_) refused_since_ = now_;
}

// Passes on the pieces of jobs' files that have arrived, and asks rolld for the next piece.
void Agent::fetch_files() {
    if (parts_.files.take_news()) request_heartbeat(Millis{0});
    if (const auto request = parts_.files.request(now_)) parts_.link.send(*request);
}

// Drains a pilot (a roll-worker in a Slurm allocation) before the allocation ends. Also drains an
// idle pilot if rolld has not answered it for too long.
void Agent::mind_allocation() {
    const PilotRules& pilot = parts_.pilot;
    if (!pilot.note || end_signals_ > 0) return;
    if (!answered_at_) answered_at_ = now_;
    const auto wall = std::chrono::floor<std::chrono::seconds>(wall_clock_now()).time_since_epoch();
    const bool leaves = must_leave(*pilot.note, pilot.handover, wall);
    const bool unwanted = parts_.core.idle() && now_ - *answered_at_ >= pilot.unwanted;
    if (!leaves && !unwanted) return;
    ++end_signals_;
    parts_.log.info("{}", leaves ? "stopping the attempts: the allocation is about to end"
                                 : "this idle roll-worker ends: rolld does not answer");
    parts_.core.on_drain(now_);
}

// Returns whether run() must return. A second signal ends roll-worker at once. In a pilot (a
// roll-worker in a Slurm allocation) a second signal does nothing, because Slurm sends several
// signals before SIGKILL. When this process ends, the guards (the attempts' parent processes) kill
// all remaining processes.
bool Agent::over() const {
    if (refused_since_ && now_ - *refused_since_ >= kRefusedFor) return true;
    if (end_signals_ == 0) return false;
    const bool unheard = parts_.last_word && !answered_at_;
    if (!refused_.empty() && parts_.core.idle()) return true;
    const bool insisted = end_signals_ > 1 && !parts_.pilot.note;
    if (insisted || (!unheard && parts_.core.settled(boot_now()))) return true;
    return give_up_at_ && now_ >= *give_up_at_;
}

void Agent::connect() {
    const auto connected = parts_.link.maintain(now_);
    const std::string trouble = connected ? "" : connected.error().message;
    if (trouble == last_trouble_) return;
    last_trouble_ = trouble;
    if (trouble.empty()) {
        parts_.log.info("connecting to rolld");
        parts_.manager.tell("STATUS=runs jobs for rolld");
    } else {
        parts_.log.warn("no connection to rolld: {}", trouble);
        parts_.manager.tell("STATUS=no connection to rolld: " + trouble);
    }
}

void Agent::request_heartbeat(Millis within) {
    change_due_ = std::min(change_due_.value_or(Instant::max()), now_ + within);
}

Instant Agent::heartbeat_due() const {
    if (!heartbeat_at_) return now_;
    const Millis ahead =
        std::chrono::floor<Millis>(wall_clock_now().time_since_epoch()) - boot_now();
    const Instant regular =
        on_heartbeat_grid(*heartbeat_at_ + parts_.heartbeat, ahead, parts_.heartbeat);
    if (!change_due_) return regular;
    const Millis between = kBetween + Millis(parts_.core.running() / kRunningAMilli);
    return std::min(regular, std::max(*change_due_, *heartbeat_at_ + between));
}

void Agent::send_heartbeat() {
    if (end_signals_ > 0 && parts_.core.idle() && !give_up_at_) give_up_at_ = now_ + kFarewell;
    if (now_ < heartbeat_due()) return;
    heartbeat_at_ = now_;
    change_due_.reset();
    parts_.core.sample_use(parts_.gpus.use(), now_);
    parts_.link.send(parts_.core.heartbeat(now_));
}

void Agent::take(const VolumeEvent& event) {
    std::visit(Overload{[&](const Looked& looked) {
                            if (looked.look) parts_.core.on_look(*looked.look, now_);
                        },
                        [&](const Published& published) {
                            parts_.core.on_published(published.attempt, published.step,
                                                     published.done, now_);
                        }},
               event);
}

void Agent::take(const ProcessEvent& event) {
    AgentCore& core = parts_.core;
    std::visit(
        Overload{[&](const Reported& e) { core.on_report(e.attempt, e.rank, e.report, now_); },
                 [&](const Exited& e) { core.on_exit(e.attempt, e.rank, e.exit, now_); },
                 [&](const LeashRanOut& e) { core.on_leash(e.attempt, now_); },
                 [&](const StartFailed& e) { core.on_start_failed(e.attempt, e.verdict); },
                 [&](const Matched& e) { core.on_matched(e.attempt, e.patterns); },
                 [&](const Used& e) { core.on_usage(e.attempt, e.usage); },
                 [&](const MemoryUsed& e) { core.on_memory(e.attempt, e.bytes); },
                 [&](const CpuUsed& e) { core.on_cpu_time(e.attempt, e.ms); },
                 [&](const ShellEnded& e) { terminals_.on_ended(e); },
                 [&](const Gone& e) {
                     terminals_.on_gone(e.attempt);
                     core.on_gone(e.attempt, now_);
                 },
                 [&](const Junk& e) {
                     parts_.log.warn("{}: program {} wrote an invalid report: {}", label(e.attempt),
                                     e.rank, e.line);
                 }},
        event);
}

void Agent::carry_out() {
    Supervisor& supervisor = parts_.supervisor;
    for (const Effect& effect : parts_.core.take_effects()) {
        std::visit(Overload{[&](const Start& e) {
                                parts_.log.info("{}: starts", label(e.order.attempt));
                                supervisor.start(e);
                            },
                            [&](const SetLeash& e) { supervisor.set_leash(e); },
                            [&](const Tell& e) { supervisor.tell(e.attempt, e.command); },
                            [&](const Terminate& e) { supervisor.terminate(e.attempt); },
                            [&](const DumpStacks& e) { supervisor.dump_stacks(e.attempt); },
                            [&](const Kill& e) { supervisor.kill(e.attempt); },
                            [&](const Publish& e) { volume_.publish(e); },
                            [&](const Remember& e) { remember(e.entry); },
                            [&](const Forget& e) {
                                parts_.run_directory.forget(e.attempt);
                                parts_.files.remove(e.attempt);
                            },
                            [&](const HeartbeatNow&) { request_heartbeat(Millis{0}); },
                            [&](const HeartbeatSoon&) { request_heartbeat(kSoon); },
                            [&](const Note& e) { parts_.log.info("{}", e.text); }},
                   effect);
    }
}

void Agent::remember(const protocol::RunningAttempt& entry) {
    const auto written = parts_.run_directory.remember(entry);
    if (!written) parts_.log.error("{}: {}", label(entry.attempt), written.error().message);
}

}  // namespace roll::agent
