// roll-worker's decisions: which attempts to run, stop, kill and report, and which checkpoints to
// publish. The class is pure: it uses no clock, process, file or socket. Each input carries the
// time. The actions that follow from an input are collected as effects.
//
//   core.on_answer(answer, now);  for (const Effect& e : core.take_effects()) carry_out(e);
//
// The lease rules are in lease.hpp. Answers may be lost, late or duplicated. This is safe: rolld
// repeats an order until a heartbeat shows its effect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/protocol/rank.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/core/attempt.hpp"
#include "worker/agent/core/effect.hpp"
#include "worker/agent/core/ran_here.hpp"

namespace roll::agent {

// Returns the attempts that the worker should run according to the answer.
std::set<AttemptKey> named_by(const protocol::Answer& answer);

class AgentCore {
  public:
    AgentCore(protocol::Heartbeat self, LeaseRules rules, StopRules stops)
        : self_(std::move(self)),
          rules_(rules),
          stops_(stops) {}

    // Adds an attempt that an earlier roll-worker of this run directory has left behind. Requires
    // that no process of the attempt runs any more.
    void add_leftover(protocol::RunningAttempt entry);

    void on_answer(const protocol::Answer& answer, Instant now);
    // Must be called instead of on_answer() if rolld refuses the worker in the answer. The answer
    // renews no lease. It shows only that this worker reaches rolld.
    void on_refusal(const protocol::Answer& answer) {
        const auto sent = sent_.find(answer.sequence);
        if (accept(answer) && sent != sent_.end()) heard_ = sent->second;
    }
    void on_look(const Look& look, Instant now);
    void on_clock(Instant now);

    void on_report(const AttemptKey& key, int rank, const protocol::Report& report, Instant now);
    void on_exit(const AttemptKey& key, int rank, ExitStatus exit, Instant now);
    // Records the use of GPUs and memory. `gpus` has each GPU's use in percent, see note_use().
    void sample_use(const std::vector<int>& gpus, Instant now) {
        for (auto& [key, attempt] : attempts_) note_use(attempt, gpus, now);
    }
    // Records the memory, in bytes, of all processes of an attempt.
    void on_memory(const AttemptKey& key, std::int64_t bytes) {
        if (Attempt* const attempt = find(key)) attempt->memory = bytes;
    }
    // Records the processor time, in ms, that all processes of an attempt have used until now.
    void on_cpu_time(const AttemptKey& key, std::int64_t ms) {
        if (Attempt* const attempt = find(key)) attempt->cpu_ms = ms;
    }
    // Must be called when the guard (the parent process of the programs) has killed the attempt at
    // its deadline.
    void on_leash(const AttemptKey& key, Instant now);
    // Records the indices of the job's log patterns that match a line of the logs.
    void on_matched(const AttemptKey& key, std::vector<int> patterns);
    void on_usage(const AttemptKey& key, const Usage& usage) {
        if (Attempt* const attempt = find(key)) note_usage(*attempt, usage);
    }
    void on_start_failed(const AttemptKey& key, Verdict verdict);
    // Must be called when no process of the attempt is left.
    void on_gone(const AttemptKey& key, Instant now);
    void on_published(const AttemptKey& key, std::int64_t step, const Result<void>& done,
                      Instant now);
    // Asks every attempt to save a checkpoint and stop. Starts no more attempts.
    void on_drain(Instant now);

    // Builds the next heartbeat. The caller must send it at once, and `now` must be the send time:
    // once rolld answers this heartbeat, the leases of the attempts count from `now`.
    protocol::Heartbeat heartbeat(Instant now);

    // Returns the path of the beacon if it must be read now, else an empty text. Returns the path
    // at most once per interval.
    std::string look_due(Instant now);

    // Returns the time until the first hold of a failed command (StopRules::hold) ends.
    Millis hold_left(Instant now) const;
    bool idle() const;  // returns true if no attempt has a process
    // Returns true if heartbeats report the attempt.
    bool has(const AttemptKey& key) const { return attempts_.contains(key); }
    std::size_t running() const { return attempts_.size(); }  // number of reported attempts
    // Returns true if no attempt is left and rolld has acknowledged the end of every attempt. If
    // this worker drains and rolld can be reached, rolld must also have acknowledged the drain:
    // otherwise rolld would wait for this worker until the lease expires.
    bool settled(Instant now) const;
    std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

  private:
    Attempt* find(const AttemptKey& key);
    bool accept(const protocol::Answer& answer);
    void renew(const protocol::Answer& answer, const std::set<AttemptKey>& named);
    void ask_to_save(const protocol::SaveOrder& order);
    void pass_on(const protocol::TellOrder& order);
    void take_answer(Attempt& attempt, const RequestAnswer& answer);
    void note_recorded(const protocol::Recorded& recorded);
    void refuse_to_start(const AttemptKey& key, Outcome outcome, std::string reason);
    void drop_said(Attempt& attempt, std::uint64_t sequence);
    void start(const protocol::StartOrder& order, const protocol::Answer& answer, Instant now);
    void forget_ended(const protocol::Answer& answer, const std::set<AttemptKey>& named);
    void stop(Attempt& attempt, StopCause cause, std::string reason, bool checkpoint, Instant now,
              Millis grace = {});
    void check_steps(Attempt& attempt, Instant now);
    void kill(Attempt& attempt, StopCause cause, std::string reason, Instant now);
    void kill_processes(Attempt& attempt);
    void publish(Attempt& attempt, Instant now);
    void conclude(Attempt& attempt, Instant now);
    void check_clock(Attempt& attempt, Instant now);
    void leash(const Attempt& attempt);
    bool renewing(Instant now) const;

    // Template of every heartbeat. Its sequence number is the number of the last heartbeat sent.
    protocol::Heartbeat self_;
    LeaseRules rules_;
    StopRules stops_;
    bool draining_ = false;
    std::optional<std::uint64_t> drain_said_{};  // first heartbeat that reported the drain
    // newest incarnation (start of rolld) seen in an answer or in the beacon
    std::uint64_t incarnation_ = 0;
    std::uint64_t echoed_ = 0;  // newest sequence number of an answered heartbeat
    // sequence number of the newest heartbeat whose answer could lower the attempts' bounds
    // (lease.hpp)
    std::uint64_t renewed_ = 0;
    // incarnation (start of rolld) that answered heartbeat number `renewed_`
    std::uint64_t renewed_by_ = 0;
    // Send time of each heartbeat that rolld may still answer, by sequence number
    std::map<std::uint64_t, Instant> sent_{};
    std::optional<Instant> heard_{};  // send time of the newest answered heartbeat
    std::string beacon_{};
    BeaconTrust trust_{};
    Instant looked_{-Millis{1 << 20}};
    std::map<AttemptKey, Attempt> attempts_{};
    RanHere ran_{};
    std::vector<Effect> effects_{};
};

}  // namespace roll::agent
