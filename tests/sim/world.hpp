// A simulated world, which a seed determines. It has users; a network that loses, doubles, delays
// and cuts messages, one way or both; nodes that die, freeze and return; clocks that jump; a disk
// that is full or slow; and a rolld that is killed and reads its ledger again.
//
// Real code: the core and the engine, the codec of messages, Sessions of the gateway, dispatch,
// Desk, AgentCore. Simulated here: sockets, processes, the volume, Slurm and the clock.
//
// Time advances in seconds. There are no faults after kFaultsEnd, and every job must then end.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/engine.hpp"
#include "daemon/gateway/sessions.hpp"
#include "tests/sim/auditor.hpp"
#include "tests/sim/copies.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/slurm.hpp"
#include "tests/sim/stored_ledger.hpp"
#include "worker/agent/volume.hpp"

namespace roll::sim {

struct Totals {
    long seconds = 0;
    long events = 0;
    long restarts = 0;
    long refused_turns = 0;
    long jobs = 0;
    long attempts = 0;
    long checkpoints = 0;
    long messages = 0;     // messages that were encoded and decoded
    long stored = 0;       // worlds with the real ledger
    long damaged = 0;      // starts of these worlds that were refused because of a damaged file
    long taken_over = 0;   // take-overs with a copy of the ledger
    long leashes = 0;      // attempts that their guard killed at the deadline
    long with_slurm = 0;   // worlds with Slurm
    long orders = 0;       // sbatch commands
    long polls = 0;        // squeue commands
    long allocations = 0;  // allocations that Slurm made of the orders
    long doubled = 0;      // of these: made while another allocation with the same key was alive
    long excess_most = 0;  // most allocations beyond the queue's max_jobs at a time
    long nodes_lost = 0;   // nodes of allocations that failed, or that Slurm believed to fail
    long asked_nodes = 0;  // scontrol commands
    long forsaken = 0;     // attempts ended because Slurm reported their node down
    long twice = 0;        // of these: attempts whose programs continued
    // Longest time in seconds for which an unwanted allocation was held without faults.
    long unused_most = 0;
};

class World {
  public:
    explicit World(std::uint64_t seed);

    void run();
    const Totals& totals() const { return totals_; }

  private:
    static constexpr int kFaultsEnd = 900;
    static constexpr int kEnd = 8'000;
    // One world of this number of worlds uses the slow parts: the codec of messages, and SQLite.
    static constexpr int kInBytesOneIn = 20;
    static constexpr int kStoredOneIn = 10;

    struct Beat {  // a record of the beacon
        int second = 0;
        std::uint64_t incarnation = 0;
        std::uint64_t counter = 0;
    };
    // The auditor's knowledge of an attempt when rolld answers a heartbeat that names the attempt.
    struct Truth {
        bool current = false;
        std::int64_t recorded = 0;  // step of the newest recorded checkpoint
    };
    struct Word {
        protocol::Answer answer;
        std::map<AttemptKey, Truth> truth{};
    };
    // A roll-worker process: its AgentCore, and the state of its loop.
    struct RollWorker {
        agent::AgentCore core;
        std::string session{};
        std::uint64_t generation = 0;
        std::vector<Word> heard{};   // answers that have arrived and are not taken yet
        std::vector<Word> obeyed{};  // answers taken in this turn
        std::optional<Beat> saw{};   // beacon record read in this turn
        std::uint64_t said = 0;      // sequence number of its last heartbeat
        // Newest answer taken: incarnation, sequence number.
        std::pair<std::uint64_t, std::uint64_t> newest{};
        // Value of `said` at the time when the node's clock stood still.
        std::optional<std::uint64_t> stood_at{};
        std::multimap<Instant, agent::VolumeEvent> volume{};  // running operations on the volume
        std::optional<Instant> beat_at{};
        // latest end of a roll-worker that was asked to end and has no programs left
        std::optional<Instant> leaves_at{};
        bool changed = false;  // an early heartbeat is due
        bool ending = false;   // the roll-worker was asked to end
    };
    struct Node {
        std::string name;
        int slots = 0;
        int gpus = 0;
        // What the roll-worker offers; 0: it does not say, as an older release
        std::int64_t memory = 0;
        int cpus = 0;
        std::string segment{};
        std::vector<int> gpu_numa{};
        Instant clock{};      // CLOCK_BOOTTIME
        Millis second{1000};  // length of a second on that clock
        bool old = false;     // its roll-worker has version 1, which sends no generation
        std::unique_ptr<RollWorker> worker{};
        std::map<AttemptKey, Copy> copies{};
        // Entries in the run directory.
        std::map<AttemptKey, protocol::RunningAttempt> remembered{};
        std::optional<protocol::PilotNote> pilot{};  // set for a node in a Slurm allocation
        std::optional<int> back_at{};                // second at which a roll-worker starts again
        int frozen_until = 0;                        // second at which roll-worker runs again
        int suspended_until = 0;                     // second at which the whole node runs again
        bool clock_stops = false;                    // while suspended, the node's clock stops, too
        // second at which messages to the node pass again
        int deaf_until = 0;
        // second at which messages from the node pass again
        int mute_until = 0;
        // second at which the node can read the volume again
        int blind_until = 0;
        int shown = 0;         // second of the beacon record that the node read last
        bool held_up = false;  // cut messages arrive after the cut instead of being lost
    };
    struct Request {
        core::Input input;
        std::function<void(const Result<bool>&)> reply{};
    };
    // A turn whose events are being committed or were committed, and of which nothing was sent yet.
    struct Pending {
        engine::Turn turn;
        std::vector<Request> requests;
        Time at{};
        bool stepped = false;  // false if there was nothing to do
    };
    struct Said {
        protocol::Heartbeat heartbeat;
        std::string frame{};  // encoded heartbeat; in some worlds only this arrives
    };
    enum class Crash { None, BeforeCommit, AfterCommit };

    // The network, and the clocks.
    bool faulty() const { return second_ < kFaultsEnd; }
    bool chance(int percent) { return faulty() && random_.percent(percent); }
    Time now() const { return Time{std::chrono::seconds(100'000 + second_ + clock_is_off_)}; }
    gateway::Instant steady_now() const { return gateway::Instant{std::chrono::seconds(second_)}; }
    protocol::Answer travelled(protocol::Answer said);
    void later(int delay, std::function<void()> what);
    void send(std::function<void()> what);
    void send(const Node& node, int cut_until, std::function<void()> what);
    void deliver();

    // The process rolld.
    Result<core::State> read_ledger();
    Result<core::State> reload() const;
    void boot();
    void die(bool asked = false);
    Result<void> commit(std::span<const core::Event> events, Time at);
    Result<void> store(std::span<const core::Event> events, Time at);
    void serve();
    void audit(const Pending& pending);
    bool step();
    void finish(const Pending& pending);
    void settle_turn(const Pending& pending);
    void check_heard() const;
    void arrive(const Node& node, const Said& said, std::uint64_t life);
    void listen();
    void check_broken(const std::string& frame);
    bool joined(const std::string& node, const std::string& session) const;
    bool is_alive(const std::string& session) const;
    void answer_workers(const engine::Turn& turn);
    void answer(WorkerId id, const core::Worker& worker, protocol::Answer answer);
    void beat();
    // Checks of what the leases promise, from outside (leases_audit.cpp).
    std::map<AttemptKey, Truth> truth(WorkerId id, const gateway::Session& session) const;
    void note_given_away(const std::vector<core::Input>& gone);
    void check_bounds() const;
    void check_obeyed(Node& node) const;
    bool all_have_ended() const;
    void check_replay() const;

    // Checks of attempts that are ended because Slurm reports a node down (nodes_audit.cpp).
    void note_forsaken(std::size_t turn);
    void forsake(const core::MemberEnded& ended);
    void check_forsaken();
    void check_gone_nodes();
    void note_answer(const pilots::Outcome& outcome);

    // A take-over by another rolld (take_over.cpp).
    void take_over();
    void forget_after_copy();
    bool claims();

    // The nodes and their roll-workers.
    void live();
    void see_what_outlived(Node& node) const;
    void live_node(Node& node);
    void work(Node& node);
    void take_in(Node& node);
    void carry_out(Node& node);
    void carry_out(Node& node, const agent::Publish& publish);
    void look(Node& node);
    void say(Node& node);
    void start_worker(Node& node);
    void set_clock(Node& node);
    void end_worker(Node& node, bool at_once);
    void leave(Node& node);
    void check_started(const Node& node, const Copy& started) const;
    bool peer_failed(const Node& node, const Copy& copy) const;

    // Slurm, and rolld's errands to it.
    pilots::Instant steady() const { return std::chrono::seconds(second_); }
    void plan_slurm();
    void add_queue();
    void open_desk();
    void errand_later(int delay, std::function<void()> what);
    void run_errands();
    void submit_order(const pilots::Submit& order);
    void bring_home(const pilots::Outcome& outcome, std::uint64_t life);
    void live_slurm();
    std::vector<Node*> nodes_of(const SlurmJob& job);
    Node* node_of(const std::string& name);
    void lose_nodes();
    void make_frail();
    pilots::Outcome carry_out(const pilots::Errand& errand);
    void complete_allocations();
    void start_pilot(const SlurmJob& job, int index);
    void check_given_back();
    void note_excess();

    // The users, and faults.
    spec::Policy invent_policy();
    void plan_users();
    void plan_open_jobs();
    void put_into_open(const std::string& key, spec::JobSpec& spec);
    void put_behind_array(spec::JobSpec& spec);
    void close_open();
    void halve();
    void end_allocation();
    spec::JobSpec invent(int number);
    void invent_shapes(spec::JobSpec& spec);
    void submit(const std::string& key, const spec::JobSpec& spec);
    void meddle();
    void break_something(Node& node);
    void ask_to_end(Node& node);
    void cancel_starting();
    void suspend(Node& node, int until, bool clock_stops);
    void cut(Node& node);
    void calm_down();
    void cancel_impossible();
    bool done() const;
    bool could_be_ordered(const spec::Resources& wanted) const;
    bool machines_hold(const spec::Resources& wanted) const;

    Random random_;
    int second_ = 0;
    bool in_bytes_ = false;  // messages are encoded and decoded
    bool clock_jumps_ = false;
    int clock_is_off_ = 0;  // error of rolld's wall clock, in seconds
    std::uint64_t order_ = 0;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> network_;

    core::Events ledger_;                     // all committed events
    std::unique_ptr<StoredLedger> stored_{};  // the same events on SQLite; null in most worlds
    std::vector<Time> ledger_times_;
    std::unique_ptr<engine::Engine> engine_;
    std::uint64_t life_ = 0;
    int down_until_ = 0;
    // second at which rolld runs again, after a slow commit or another stall
    int stalled_until_ = 0;
    int slow_commit_ = 0;  // seconds that the next commit takes
    std::optional<Pending> pending_{};
    std::size_t synced_ = 0;  // number of events in ledger_ whose commit was acknowledged
    std::vector<std::size_t> unsure_ends_{};  // ends, in ledger_, of the unacknowledged commits
    bool takes_over_ = false;                 // the next rolld takes over with a copy of the ledger
    bool claimed_ = false;                    // the next rolld has written its claim to the beacon
    std::uint64_t reign_ = 0;                 // incarnation of the newest rolld that took over
    bool full_ = false;
    bool behind_ = false;  // the last turn was refused because the volume was full
    Crash crash_ = Crash::None;
    std::optional<Time> wakeup_;
    std::size_t audited_ = 0;
    Time stepped_at_{};  // time of the last turn, on rolld's clock
    std::vector<Request> inbox_;
    std::vector<Said> socket_;  // heartbeats that have arrived
    // Sessions with a heartbeat in this turn that renewed the lease.
    std::vector<std::string> renewed_{};
    std::optional<gateway::Sessions> sessions_;
    std::map<WorkerId, protocol::Answer> orders_{};  // orders of the last turn
    std::uint64_t published_ = 0;                    // number of published beats
    std::deque<Beat> beacon_;    // newest records of the beacon file, newest last
    int volume_lost_until_ = 0;  // second at which rolld can write the beacon again

    spec::Policy policy_;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> errands_;
    std::unique_ptr<FakeSlurm> slurm_{};  // null: a world without Slurm
    std::optional<pilots::Desk> desk_{};
    spec::PilotQueue queue_{};
    int frail_ = 0;                // mean seconds until a busy node fails; 0: nodes do not fail
    std::optional<int> polled_{};  // second of this rolld's last squeue
    std::optional<int> polled_before_{};
    std::optional<int> asked_nodes_{};  // second of the last question about nodes
    bool said_down_ = false;            // a node was reported down since the last squeue
    std::optional<int> said_down_at_{};
    bool at_slurm_ = false;  // an errand is running
    struct Gone {
        int silent = 0;  // for how many seconds the node's worker has been silent
        int known = 0;   // for how many seconds rolld could have known that the node is dead
    };
    std::map<std::string, Gone> gone_{};  // dead nodes whose silent workers hold training jobs
    // An attempt with a member that was ended because Slurm reported its node down.
    struct Forsaken {
        std::string node;
        std::uint64_t incarnation = 0;
        // Counter of the beacon when the worker's lease was last renewed.
        std::uint64_t renewed_at = 0;
    };
    std::map<AttemptKey, Forsaken> forsaken_{};
    std::size_t noted_ = 0;  // number of events in ledger_ that note_forsaken() has seen
    std::map<std::string, int> unused_{};  // by id: since when a Slurm job is not wanted
    std::size_t seen_ = 0;                 // number of Slurm's jobs that note_excess() has seen

    std::deque<Node> nodes_;
    // Number of nodes that are always there; they are the first in nodes_.
    std::size_t machines_ = 0;
    std::uint64_t sessions_made_ = 0;
    std::set<std::string> volume_{};             // directories of checkpoints on the volume
    std::map<std::string, spec::JobSpec> keys_;  // jobs that users submit, by idempotency key
    std::map<std::string, JobId> known_;         // jobs that users were told, by idempotency key
    Auditor auditor_;
    Totals totals_;
};

}  // namespace roll::sim
