// Sessions of the workers that rolld hears, and the count of their silence. Pure: time comes as
// arguments.
//
// Silence is counted in beats that rolld published, not in time (leases rule 4), so a rolld that
// was frozen, stalled or dead counts none.
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
    int silent_after_start_beats = 15;  // the lease; for a worker not heard since this start
    std::chrono::milliseconds company = std::chrono::seconds(2);
    std::chrono::milliseconds missing_grace = std::chrono::seconds(3);
    // Time until a start order can no longer take effect, because a worker drops orders older than
    // the lease (rule 15): 15 s plus clock drift.
    std::chrono::milliseconds start_on_its_way = std::chrono::seconds(16);
    // Time for which another rolld's beacon must be unchanged (rule 17): lease + beat; after a
    // claim, volume delay + beat.
    std::chrono::milliseconds stillness = std::chrono::seconds(16);
    std::chrono::milliseconds claim_wait = std::chrono::seconds(5);
    // A rolld that cannot read its beacon for this long ends, because another may have taken
    // over. 0: never.
    std::chrono::milliseconds volume_patience{0};
};

// Returns the number of beats after which a rolld that took over starts jobs (rule 19). The older
// rolld may have run on for up to its `volume_patience`, and its workers may have run jobs for
// lease + fence + slack after that.
std::uint64_t beats_to_adopt(const LeaseRules& rules);

// Sender of a message: its connection and the key that authenticated it.
struct Peer {
    std::string route{};               // ZeroMQ routing id
    std::string key{};                 // public key, Z85
    int version = protocol::kVersion;  // protocol version of a client
    std::uint64_t local = 0;           // its LocalDoor connection; 0: over ZeroMQ
};

struct Session {
    Peer peer;
    protocol::Heartbeat last;
    std::string frame;             // raw form of `last`; empty: not known
    std::uint64_t renewed_at = 0;  // beacon counter from which its silence counts
    std::int64_t counted = 0;      // beats of silence when the last heartbeat arrived
    Instant heard_at{};
    Instant renewed{};  // when the last renewing heartbeat arrived
    // Attempts that should run there but are not reported, and since when.
    std::map<AttemptKey, Instant> missing{};
    std::map<AttemptKey, Instant> ordered{};  // attempt -> when its start order was last sent
    std::set<AttemptKey> fenced{};            // attempts reported as running that are not current
    std::optional<WorkerId> worker{};         // cached by worker_of()
};

class Sessions {
  public:
    // `cluster` names the ledger, as in pilot keys.
    explicit Sessions(LeaseRules rules, std::string cluster = {})
        : rules_(rules),
          cluster_(std::move(cluster)) {}

    // Records a heartbeat and returns its claims as inputs of the core. `published` is the current
    // beacon counter, `frame` the raw form of the heartbeat.
    std::vector<core::Input> hear(const core::State& state, const Peer& peer,
                                  protocol::Heartbeat heartbeat, std::uint64_t published,
                                  Instant now, std::string_view frame = {});

    // Like hear(), for a frame that equals the session's last one except for the sequence. Most
    // frames do, and need no parsing. Returns nullopt if the frame must be parsed.
    std::optional<std::vector<core::Input>> hear_again(const core::State& state, const Peer& peer,
                                                       std::string_view frame,
                                                       std::uint64_t published, Instant now);

    // Returns WorkerGone for workers of State whose silence exceeds the limit.
    std::vector<core::Input> lost(const core::State& state, std::uint64_t published);

    // Returns claims for workers of State that missed two heartbeats or were not heard since this
    // start. Nothing is placed on them (rule 8). Checks at most once per second.
    std::vector<core::Input> quiet(const core::State& state, Instant now);

    // Returns quiet workers that have been silent for a few beats, including workers whose
    // heartbeats renew nothing. A worker not heard since this start counts after a lease. A worker
    // that is heard leaves the set at once, so call this each turn.
    const std::set<WorkerId>& silent(const core::State& state, std::uint64_t published);

    // Returns true if a beat may be published: some worker reports that it hears rolld (rule 7).
    bool has_company(Instant now);

    // Keyed by session name. A worker of State without an entry has not been heard since this
    // start.
    using ByName = std::unordered_map<std::string, Session, TextHash, std::equal_to<>>;
    ByName& all() { return sessions_; }
    const ByName& all() const { return sessions_; }

    // Drops sessions of workers that State no longer has.
    void forget_gone(const core::State& state);

    // Returns the worker of State with this session.
    std::optional<WorkerId> worker_of(const core::State& state, std::string_view session);

    // Returns the names of sessions heard since the last call, possibly repeated; each must be
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
    ByName sessions_;                                  // unordered: no result depends on the order
    std::map<WorkerId, std::uint64_t> unheard_since_;  // beacon counter at which counting began
    std::vector<std::string> owing_;
    std::string companion_;  // session that last satisfied has_company()
    // Lower bounds for when a worker can become quiet or lost; the workers are checked only then.
    // Each new heartbeat delays these times or brings `listen_at_` forward.
    Instant listen_at_{};
    std::uint64_t judge_at_ = 0;  // in beats of the beacon counter
    std::set<WorkerId> silent_;
    std::optional<std::uint64_t> silent_for_;  // beacon counter of the last check of all workers
    std::pair<std::size_t, std::uint64_t>
        tidied_for_;  // State's workers, and the next one's number
};

}  // namespace roll::gateway
