// The workers that rolld hears, and the count of their silence. Pure: time comes as arguments.
//
// Silence is counted in beats that rolld published, never in time (leases rule 4), so a rolld that
// was frozen, stalled or dead counts nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/protocol/worker.hpp"
#include "daemon/core/core.hpp"

namespace roll::gateway {

using Instant = std::chrono::steady_clock::time_point;

struct LeaseRules {
    int lost_after_beats = 35;  // lease + fence + slack
    int silent_after_beats = 3;
    int silent_after_start_beats = 15;  // of a worker that this rolld has not heard: the lease
    std::chrono::milliseconds company = std::chrono::seconds(2);
    std::chrono::milliseconds missing_grace = std::chrono::seconds(3);
    // A start order older than the lease is dropped by the worker (rule 15): 15 s and some drift.
    std::chrono::milliseconds start_on_its_way = std::chrono::seconds(16);
    // Of another rolld's beacon (rule 17): lease + beat; and volume delay + beat after a claim.
    std::chrono::milliseconds stillness = std::chrono::seconds(16);
    std::chrono::milliseconds claim_wait = std::chrono::seconds(5);
    // A rolld that cannot read its beacon for so long ends: another may have taken over. 0: never.
    std::chrono::milliseconds volume_patience{0};
};

// Beats after which a rolld that took over starts jobs (rule 19). The older one may have gone on
// for as long as it has patience, and its workers for lease, fence and slack after that.
std::uint64_t beats_to_adopt(const LeaseRules& rules);

// Who sent a message: its connection and the key that authenticated it.
struct Peer {
    std::string route{};               // ZeroMQ's routing id
    std::string key{};                 // public key, Z85
    int version = protocol::kVersion;  // of a client
    std::uint64_t local = 0;           // its connection at the local door; 0: over ZeroMQ
};

struct Session {
    Peer peer;
    protocol::Heartbeat last;
    std::string frame;             // that said it; empty: not known
    std::uint64_t renewed_at = 0;  // the beacon's counter from which its silence counts
    std::int64_t counted = 0;      // silence once the last heartbeat had come, in beats
    Instant heard_at{};
    Instant renewed{};                        // when the last renewing one came
    std::map<AttemptKey, Instant> missing{};  // should run there, and since when it does not say so
    std::map<AttemptKey, Instant> ordered{};  // when its start order was last sent
    std::set<AttemptKey> fenced{};            // it runs these, and they are not current
    std::optional<WorkerId> worker{};         // as it was last looked up
};

class Sessions {
  public:
    // `cluster` names the ledger, as pilots say it.
    explicit Sessions(LeaseRules rules, std::string cluster = {})
        : rules_(rules),
          cluster_(std::move(cluster)) {}

    // Notes the heartbeat and says what it claims, as inputs of the core. `published` is the
    // beacon's counter now, `frame` what it was parsed from.
    std::vector<core::Input> hear(const core::State& state, const Peer& peer,
                                  protocol::Heartbeat heartbeat, std::uint64_t published,
                                  Instant now, std::string_view frame = {});

    // The same of a frame that says what its session said last, but for the sequence: most do, and
    // are not parsed. Nothing: this one is to be.
    std::optional<std::vector<core::Input>> hear_again(const core::State& state, const Peer& peer,
                                                       std::string_view frame,
                                                       std::uint64_t published, Instant now);

    // Workers of State whose silence has run out: claims that they are gone.
    std::vector<core::Input> lost(const core::State& state, std::uint64_t published);

    // Workers of State of which two heartbeats are missing, or that have not been heard since the
    // start: nothing is placed on them (rule 8). Looked for once a second at most.
    std::vector<core::Input> quiet(const core::State& state, Instant now);

    // Quiet workers that have said nothing for some beats, deaf ones included; one that was not
    // heard since the start, for a lease. Whoever speaks leaves at once: to be asked each turn.
    const std::set<WorkerId>& silent(const core::State& state, std::uint64_t published);

    // Whether a beat may be published: some worker says that it hears rolld (rule 7).
    bool has_company(Instant now);

    // By session name. A worker of State that has no entry has not been heard since this start.
    using ByName = std::unordered_map<std::string, Session, TextHash, std::equal_to<>>;
    ByName& all() { return sessions_; }
    const ByName& all() const { return sessions_; }

    // Drops what is kept of workers that State no longer has.
    void forget_gone(const core::State& state);

    // The worker of State whose session it is.
    std::optional<WorkerId> worker_of(const core::State& state, std::string_view session);

    // Names of the sessions that were heard since the last call, some twice: each is to be
    // answered.
    std::vector<std::string> take_owing() { return std::exchange(owing_, {}); }

  private:
    void note(const core::State& state, std::optional<WorkerId> worker, Session& session,
              bool fresh, const Peer& peer, std::uint64_t published, Instant now,
              std::vector<core::Input>& inputs);
    bool is_company(const Session& session, Instant now) const;
    bool is_silent(const core::State& state, WorkerId id, std::uint64_t published) const;

    LeaseRules rules_;
    std::string cluster_;
    ByName sessions_;                                  // no result rests on its order
    std::map<WorkerId, std::uint64_t> unheard_since_;  // counter at which counting began
    std::vector<std::string> owing_;
    std::string companion_;  // was company when it was last looked for
    // Before these no worker can be quiet or lost, as what was last heard of each tells: all are
    // walked only then. Of what comes later each puts it off, or brings listen_at_ forward.
    Instant listen_at_{};
    std::uint64_t judge_at_ = 0;  // of the beacon's counter
    std::set<WorkerId> silent_;
    std::optional<std::uint64_t> silent_for_;  // the counter for which all were walked
    std::pair<std::size_t, std::uint64_t>
        tidied_for_;  // State's workers, and the next one's number
};

}  // namespace roll::gateway
