// What roll-worker decides: which attempts run, stop, are killed, publish and are reported. Pure:
// no clock, process, file or socket. Each input carries the time; what it asks for is taken as
// effects.
//
//   core.on_answer(answer, now);  for (const Effect& e : core.take_effects()) carry_out(e);
//
// The lease rules are those of lease.hpp. Level-triggered: answers may be lost, late or doubled.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "common/protocol/rank.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/attempt.hpp"
#include "worker/agent/ran_here.hpp"

namespace roll::agent {

// clang-format off
struct Start { protocol::StartOrder order; Instant lease_ends{}; Instant killed_at{}; };
struct SetLeash { AttemptKey attempt; Instant lease_ends{}; Instant killed_at{}; };
struct Tell { AttemptKey attempt; protocol::Command command; };      // every rank, by its stdin
struct Terminate { AttemptKey attempt; };                            // SIGTERM to the group
struct DumpStacks { AttemptKey attempt; };                           // of its ranks, into their logs
struct Kill { AttemptKey attempt; };                                 // SIGKILL to all of it
struct Publish { AttemptKey attempt; std::int64_t step = 0; std::string from; std::string to; Instant before{}; };
struct Remember { protocol::RunningAttempt entry; };                 // survives this process
struct Forget { AttemptKey attempt; };
struct BeatNow { };                                                  // rolld should hear of a change
struct BeatSoon { };                                                 // that can wait for the next one
struct Note { std::string text; };                                   // for the log
// clang-format on
using Effect = std::variant<Start, SetLeash, Tell, Terminate, DumpStacks, Kill, Publish, Remember,
                            Forget, BeatNow, BeatSoon, Note>;

class AgentCore {
  public:
    AgentCore(protocol::Heartbeat self, LeaseRules rules, StopRules stops)
        : self_(std::move(self)),
          rules_(rules),
          stops_(stops) {}

    // An attempt that an earlier roll-worker of this run directory left; none of it runs any more.
    void add_leftover(protocol::RunningAttempt entry);

    void on_answer(const protocol::Answer& answer, Instant now);
    void on_look(const Look& look, Instant now);
    void on_clock(Instant now);

    void on_report(const AttemptKey& key, int rank, const protocol::Report& report, Instant now);
    void on_exit(const AttemptKey& key, int rank, ExitStatus exit, Instant now);
    void on_gpu_use(const std::vector<int>& use) {  // as note_gpu_use() takes it
        for (auto& [key, attempt] : attempts_) note_gpu_use(attempt, use);
    }
    void on_leash(const AttemptKey& key, Instant now);  // the guard killed it: the leash ran out
    void on_matched(const AttemptKey& key, std::vector<int> patterns);  // in its logs
    void on_start_failed(const AttemptKey& key, Verdict verdict);
    void on_gone(const AttemptKey& key, Instant now);  // no process of it is left
    void on_published(const AttemptKey& key, std::int64_t step, const Result<void>& done,
                      Instant now);
    void on_drain(Instant now);  // stop everything with a checkpoint, start nothing

    // The next heartbeat. Call it to send it: its time of sending is what answers are measured by.
    protocol::Heartbeat heartbeat(Instant now);

    // The beacon to look at now, empty if none is due. A look asked for is due again only after
    // on_look or a beat.
    std::string look_due(Instant now);

    bool idle() const;                                        // no attempt has a process
    std::size_t running() const { return attempts_.size(); }  // that a heartbeat tells of
    // And every end has been taken note of; where it leaves and rolld is there, that as well: else
    // its silence would be waited for.
    bool settled(Instant now) const;
    std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

  private:
    Attempt* find(const AttemptKey& key);
    bool accept(const protocol::Answer& answer);
    void renew(const protocol::Answer& answer, const std::set<AttemptKey>& named);
    void ask_to_save(const protocol::SaveOrder& order);
    void note_recorded(const protocol::Recorded& recorded);
    void refuse_to_start(const AttemptKey& key, const char* outcome, std::string reason);
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

    protocol::Heartbeat self_;  // what every heartbeat says, and the last sequence
    LeaseRules rules_;
    StopRules stops_;
    bool draining_ = false;
    std::optional<std::uint64_t> drain_said_{};  // the first heartbeat that said so
    std::uint64_t incarnation_ = 0;              // the newest seen, in an answer or the beacon
    std::uint64_t echoed_ = 0;                   // the newest sequence answered
    std::uint64_t renewed_ = 0;                  // the sequence by which bounds were lowered last,
    std::uint64_t renewed_by_ = 0;               // and the incarnation that echoed it
    std::map<std::uint64_t, Instant> sent_{};    // heartbeats that an answer may still echo
    std::optional<Instant> heard_{};             // sending time of the newest one answered
    std::string beacon_{};
    BeaconTrust trust_{};
    Instant looked_{-Millis{1 << 20}};
    std::map<AttemptKey, Attempt> attempts_{};
    RanHere ran_{};
    std::vector<Effect> effects_{};
};

}  // namespace roll::agent
