// What is true now. State is exactly the fold of apply() over the ledger's events: nothing here is
// read from a clock, a socket or a random source.
//
// Containers are ordered (std::map) so that every walk over State is deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job.hpp"
#include "common/spec/policy.hpp"
#include "common/time.hpp"
#include "daemon/core/allocation.hpp"
#include "daemon/core/index.hpp"
#include "daemon/core/use.hpp"

namespace roll::core {

// Queued -> Running -> Done | Failed | Cancelled; Running -> Queued on retry; Queued -> Cancelled.
enum class JobPhase { Queued, Running, Done, Failed, Cancelled };
constexpr bool is_over(JobPhase phase) { return phase >= JobPhase::Done; }

// How an attempt ended. Infra: lost worker, killed by a signal that we did not send, full disk.
// App: the program failed. Invalid: the input can never work. Yielded: stopped at a step boundary
// after a checkpoint, wants to go on. Stopped: ended because we asked.
enum class Outcome { Done, App, Infra, Invalid, Yielded, Stopped };

// Starting -> Running -> Stopping -> ended. Starting -> Stopping is legal.
enum class AttemptPhase { Starting, Running, Stopping };

// What an attempt holds of one worker. The order of an attempt's places is that of node ranks.
struct Place {
    WorkerId worker;
    std::vector<int> slots;  // indices, 0..Worker::slots-1
    std::vector<int> gpus;   // indices, 0..Worker::gpus-1
    bool up = false;         // its ranks have come up
    bool ended = false;      // this member has reported its end
    friend bool operator==(const Place&, const Place&) = default;
};

struct Attempt {
    Token token;
    AttemptPhase phase = AttemptPhase::Starting;
    std::vector<Place> places{};
    std::vector<std::string> nodes{};  // of the places: names outlive a lost worker
    Time placed_at{};
    std::optional<Time> started_at{};
    // The bad end of a member that the attempt is judged by, kept until every member has ended: the
    // first that came of itself, before those that we or a lost peer brought about.
    std::optional<Outcome> outcome{};
    std::string blamed{};  // the node of that member
    int exit_code = 0;     // as a shell would show it: 128+n for signal n
    std::string reason{};
    bool preempted = false;   // stops because a job of higher priority wants its place
    std::uint64_t asked = 0;  // checkpoints that somebody asked it for
    std::uint64_t saved = 0;  // the newest of these that is recorded
    friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct EndedAttempt {
    Token token;
    std::vector<std::string> nodes{};
    Time placed_at{};
    std::optional<Time> started_at{};
    Time ended_at{};
    Outcome outcome = Outcome::Done;
    int exit_code = 0;
    std::string reason{};
    friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};

// A checkpoint that counts: its directory lies under its final name and the ledger has it.
struct Checkpoint {
    std::int64_t step = 0;
    Token token;
    std::string directory;    // absolute
    std::uint64_t asked = 0;  // the request of its attempt that it answers; 0: none
    friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

struct Job {
    spec::JobSpec spec;  // `output` resolved: no "{id}"
    std::string key;     // the client's idempotency key
    std::string user;
    Time submitted_at{};
    JobPhase phase = JobPhase::Queued;
    bool held = false;
    bool cancel_requested = false;
    std::string cancel_reason{};
    Time not_before{};  // back-off: not placed earlier than this
    bool due = true;    // begin time and back-off are over
    JobId array{};      // the first job of its array; 0: it is in none
    int infra_failures = 0;
    int app_failures = 0;
    int timeouts = 0;
    int preemptions = 0;
    std::int64_t best_step = 0;        // newest checkpoint when an attempt last ended
    int stalled = 0;                   // bad ends in a row without a newer one
    std::set<std::string> avoid{};     // nodes, by retry.on_exit
    std::uint64_t attempts = 0;        // attempt numbers given so far
    std::optional<Attempt> attempt{};  // the current one; set iff phase is Running
    std::vector<EndedAttempt> past{};
    std::vector<Checkpoint> checkpoints{};  // ascending by step, newest last
    std::string exported{};                 // directory of the HF export that this job wrote
    std::optional<JobId> export_job{};      // the convert job that follows this one
    std::optional<Time> ended_at{};
    int exit_code = 0;
    std::string reason{};  // why it failed or was cancelled, one sentence
    friend bool operator==(const Job&, const Job&) = default;
};

// One incarnation of a roll-worker process.
struct Worker {
    std::string node;     // host name, unique among live workers
    std::string session;  // drawn by the process at its start; names the incarnation
    int slots = 0;
    int gpus = 0;
    bool draining = false;  // gets nothing new
    Time joined_at{};
    AllocationId allocation{};  // that it came with; 0: none
    friend bool operator==(const Worker&, const Worker&) = default;
};

struct State {
    std::uint64_t incarnation = 0;  // of rolld; raised at each start before anything else
    spec::Policy policy;
    std::map<JobId, Job> jobs;
    std::map<WorkerId, Worker> workers;
    std::map<std::string, JobId> keys;  // idempotency key -> job
    // node -> the sessions that joined there, oldest first. Only the newest may come (back).
    std::map<std::string, std::vector<std::string>> sessions;
    std::map<std::string, AllocationQueue> queues;  // by name
    std::map<AllocationId, Allocation> allocations;
    std::uint64_t next_allocation = 1;
    std::uint64_t next_job = 1;
    std::uint64_t next_worker = 1;
    std::map<User, Use> use;
    Index index;  // follows from the rest
    friend bool operator==(const State&, const State&) = default;
};

}  // namespace roll::core
