// Keeps the sessions of the workers that send heartbeats, and counts how long each is silent (how
// long no heartbeat renews its lease). The functions are pure: time is an argument.
//
// Silence is counted in published ticks (increments of the beacon's counter), not in time (leases
// rule 4). A rolld that was frozen, stalled or dead therefore counts no silence.
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
#include "daemon/core/state/input.hpp"
#include "daemon/gateway/lease_rules.hpp"

namespace roll::gateway {

using Instant = std::chrono::steady_clock::time_point;

// Returns the number of ticks after which a rolld that took over may start jobs (leases rule 19).
// The older rolld may have run on for its `volume_patience`. After that, its workers may have run
// jobs for lease + fence + slack.
std::uint64_t beats_to_adopt(const LeaseRules& rules);

// The sender of a message: its connection, and the key that authenticated it.
struct Peer {
    std::string route{};               // routing id of the ZeroMQ connection
    std::string key{};                 // public key in Z85
    int version = protocol::kVersion;  // protocol version of a client's request
    std::uint64_t local = 0;           // number of a connection of LocalDoor; 0: ZeroMQ
};

struct Session {
    Peer peer;
    protocol::Heartbeat last;
    std::string frame;             // text from which `last` was parsed; empty: unknown
    std::uint64_t renewed_at = 0;  // counter of the beacon at the last renewal of the lease
    std::int64_t counted = 0;      // ticks from the last renewal of the lease to the last heartbeat
    Instant heard_at{};
    Instant renewed{};  // arrival of the last heartbeat that renewed the lease
    // Attempts that should run on the worker but are not in its heartbeats, and since when.
    std::map<AttemptKey, Instant> missing{};
    std::map<AttemptKey, Instant> ordered{};  // when each attempt's start order was last sent
    std::set<AttemptKey> fenced{};     // attempts that the worker reports but that are not current
    std::optional<WorkerId> worker{};  // result of worker_of(), cached
};

// Returns the time without a heartbeat after which a worker has missed two heartbeats.
std::chrono::milliseconds two_missed_beats(const Session& session);

class Sessions {
  public:
    // `cluster` is the id of the ledger. The keys of Slurm allocation requests contain this id.
    explicit Sessions(LeaseRules rules, std::string cluster = {})
        : rules_(rules),
          cluster_(std::move(cluster)) {}

    // Records a heartbeat and returns the resulting inputs for the core. `published` is the current
    // counter of the beacon, `frame` the text of the heartbeat.
    std::vector<core::Input> hear(const core::State& state, const Peer& peer,
                                  protocol::Heartbeat heartbeat, std::uint64_t published,
                                  Instant now, std::string_view frame = {});

    // Does the same as hear() for a frame that differs from the session's last frame only in the
    // sequence number, but does not parse it. Returns nullopt for any other frame; such a frame
    // needs hear().
    std::optional<std::vector<core::Input>> hear_again(const core::State& state, const Peer& peer,
                                                       std::string_view frame,
                                                       std::uint64_t published, Instant now);

    // Returns WorkerGone for each worker of State that has been silent for lost_after_beats ticks.
    std::vector<core::Input> lost(const core::State& state, std::uint64_t published);

    // Returns WorkerHeard{false} for each worker of State that missed two heartbeats; no job is
    // placed on such a worker (leases rule 8). Checks at most once per second.
    std::vector<core::Input> quiet(const core::State& state, Instant now);

    // Returns the silent workers. A quiet worker (Worker::quiet) is silent if it has sent no
    // heartbeat for silent_after_beats ticks. If it has sent no heartbeat since rolld's start, the
    // limit is silent_after_start_beats ticks. Every heartbeat ends the silence, even one that does
    // not renew the lease. Call silent() in each turn, so that a worker leaves the set as soon as
    // its heartbeat arrives.
    const std::set<WorkerId>& silent(const core::State& state, std::uint64_t published);

    // Returns true if this worker is silent, as silent() defines it.
    bool is_silent(const core::State& state, WorkerId id, std::uint64_t published) const;

    // Returns true if a worker has lately confirmed an answer of rolld. If no worker has, rolld may
    // be cut off from all workers and must not publish a tick (leases rule 7).
    bool has_company(Instant now);
    // Records that a worker that rolld refuses (rivals.hpp) has confirmed an answer of rolld.
    // has_company() then returns true, so rolld publishes ticks. Without ticks, rolld could not
    // count the silence of the earlier worker on the same node.
    void hear_refused(const protocol::Heartbeat& heartbeat, Instant now) {
        if (heartbeat.heard_recently) refused_heard_at_ = now;
    }

    // Keyed by session name. A worker that is in State but has no entry here has sent no heartbeat
    // since rolld started.
    using ByName = std::unordered_map<std::string, Session, TextHash, std::equal_to<>>;
    ByName& all() { return sessions_; }
    const ByName& all() const { return sessions_; }

    // Drops sessions of workers that State no longer has.
    void forget_gone(const core::State& state);

    // Returns the worker in State that has this session; nullopt if there is none.
    std::optional<WorkerId> worker_of(const core::State& state, std::string_view session);

    // Returns the names of the sessions that sent a heartbeat since the last call. The caller must
    // answer each session. A name may occur several times.
    std::vector<std::string> take_owing() { return std::exchange(owing_, {}); }

  private:
    void note(const core::State& state, std::optional<WorkerId> worker, Session& session,
              bool fresh, const Peer& peer, std::uint64_t published, Instant now,
              std::vector<core::Input>& inputs);
    bool is_company(const Session& session, Instant now) const;

    LeaseRules rules_;
    std::string cluster_;
    ByName sessions_;  // unordered: no result depends on the order
    // beacon counter when the worker's silence began
    std::map<WorkerId, std::uint64_t> unheard_since_;
    std::vector<std::string> owing_;
    std::string companion_;  // session of the worker that has_company() found last
    // last time at which a worker that rolld refuses confirmed an answer
    std::optional<Instant> refused_heard_at_;
    // quiet() does nothing before the time `listen_at_`. lost() does nothing before the beacon's
    // counter reaches `judge_at_`. A heartbeat may make `listen_at_` earlier.
    Instant listen_at_{};
    std::uint64_t judge_at_ = 0;
    std::set<WorkerId> silent_;
    std::optional<std::uint64_t> silent_for_;  // beacon counter at the last check of all workers
    // values at the last forget_gone(): number of workers in State, id of the next new worker
    std::pair<std::size_t, std::uint64_t> tidied_for_;
};

}  // namespace roll::gateway
