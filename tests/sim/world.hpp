// One seeded world: users, a network that loses, doubles, delays and is cut one way or both, nodes
// that die, freeze and come back, clocks that jump, a disk that fills up or is slow, and a rolld
// that is killed and reads its ledger.
//
// Real: the core and the engine, the codec of the messages, gateway's Sessions, dispatch, the
// pilots' desk, AgentCore. Of this folder: sockets, processes, volume, Slurm and the clock.
//
// Time goes in seconds. Faults stop after kFaultsEnd; from then on everything must come to its end.
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
    long messages = 0;     // encoded and decoded
    long stored = 0;       // worlds with the real ledger
    long damaged = 0;      // starts of these that were refused for a damaged file
    long taken_over = 0;   // with a copy of the ledger
    long leashes = 0;      // attempts that their guard killed
    long with_slurm = 0;   // worlds
    long orders = 0;       // sbatch commands
    long polls = 0;        // squeue commands
    long allocations = 0;  // that Slurm made of them
    long doubled = 0;      // of these: while another of the same name was alive
    long excess_most = 0;  // alive at once beyond the queue's max_jobs
    long nodes_lost = 0;   // of pilots, or Slurm thought so
    long asked_nodes = 0;  // scontrol commands
    long forsaken = 0;     // attempts given up because Slurm said that a node was down
    long twice = 0;        // of these: they ran on
    long unused_most = 0;  // seconds that one of no use was held while nothing went wrong
};

class World {
  public:
    explicit World(std::uint64_t seed);

    void run();
    const Totals& totals() const { return totals_; }

  private:
    static constexpr int kFaultsEnd = 900;
    static constexpr int kEnd = 8'000;
    // Some worlds have what takes long: the codec of the messages; SQLite.
    static constexpr int kInBytesOneIn = 20;
    static constexpr int kStoredOneIn = 10;

    struct Beat {  // in the beacon
        int second = 0;
        std::uint64_t incarnation = 0;
        std::uint64_t counter = 0;
    };
    // What the auditor knows of an attempt when rolld answers a heartbeat that names it.
    struct Truth {
        bool current = false;
        std::int64_t recorded = 0;  // the newest step
    };
    struct Word {
        protocol::Answer answer;
        std::map<AttemptKey, Truth> truth{};
    };
    // A roll-worker process: AgentCore, and what its loop keeps.
    struct RollWorker {
        agent::AgentCore core;
        std::string session{};
        std::uint64_t generation = 0;
        std::vector<Word> heard{};                            // and not taken in yet
        std::vector<Word> obeyed{};                           // taken in, in this turn
        std::optional<Beat> saw{};                            // the beacon, in this turn
        std::uint64_t said = 0;                               // the last heartbeat's sequence
        std::pair<std::uint64_t, std::uint64_t> newest{};     // answer: incarnation, sequence
        std::optional<std::uint64_t> stood_at{};              // `said` when its clock stood still
        std::multimap<Instant, agent::VolumeEvent> volume{};  // what is under way there
        std::optional<Instant> beat_at{};
        std::optional<Instant> leaves_at{};  // it was asked to end, and nothing runs any more
        bool changed = false;                // a heartbeat is due before its time
        bool ending = false;                 // it was asked to end
    };
    struct Node {
        std::string name;
        int slots = 0;
        int gpus = 0;
        std::string segment{};
        std::vector<int> gpu_numa{};
        Instant clock{};      // CLOCK_BOOTTIME
        Millis second{1000};  // by that clock
        bool old = false;     // its roll-worker is of version 1, which says no generation
        std::unique_ptr<RollWorker> worker{};
        std::map<AttemptKey, Copy> copies{};
        std::map<AttemptKey, protocol::RunningAttempt> remembered{};  // in the run directory
        std::optional<protocol::PilotNote> pilot{};  // of one that comes and goes with a Slurm job
        std::optional<int> back_at{};                // there is no roll-worker until then
        int frozen_until = 0;                        // roll-worker stands still
        int suspended_until = 0;                     // the whole node does
        bool clock_stops = false;                    // and its clock with it
        int deaf_until = 0;                          // what rolld says does not arrive
        int mute_until = 0;                          // what it says does not arrive
        int blind_until = 0;                         // it cannot read the volume
        int shown = 0;                               // how old the beacon is that it has seen
        bool held_up = false;                        // what a cut keeps back arrives after it
    };
    struct Request {
        core::Input input;
        std::function<void(const Result<core::Events>&)> reply{};
    };
    // A turn whose events are, or are about to be, on disk, and of which nothing has been said.
    struct Pending {
        engine::Turn turn;
        std::vector<Request> requests;
        Time at{};
        bool stepped = false;  // else there was nothing to do
    };
    struct Said {
        protocol::Heartbeat heartbeat;
        std::string frame{};  // in some worlds that is all that arrives
    };
    enum class Crash { None, BeforeCommit, AfterCommit };

    // The network and the clock.
    bool faulty() const { return second_ < kFaultsEnd; }
    bool chance(int percent) { return faulty() && random_.percent(percent); }
    Time now() const { return Time{std::chrono::seconds(100'000 + second_ + clock_is_off_)}; }
    gateway::Instant steady_now() const { return gateway::Instant{std::chrono::seconds(second_)}; }
    protocol::Answer travelled(protocol::Answer said);
    void later(int delay, std::function<void()> what);
    void send(std::function<void()> what);
    void send(const Node& node, int cut_until, std::function<void()> what);
    void deliver();

    // rolld.
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
    // What the leases promise, seen from outside (leases_audit.cpp).
    std::map<AttemptKey, Truth> truth(WorkerId id, const gateway::Session& session) const;
    void note_given_away(const std::vector<core::Input>& gone);
    void check_bounds() const;
    void check_obeyed(Node& node) const;
    bool all_have_ended() const;
    void check_replay() const;

    // What is given up on Slurm's word (nodes_audit.cpp).
    void note_forsaken(std::size_t turn);
    void forsake(const core::MemberEnded& ended);
    void check_forsaken();
    void check_gone_nodes();
    void note_answer(const pilots::Outcome& outcome);

    // Another rolld (take_over.cpp).
    void take_over();
    void forget_after_copy();
    bool claims();

    // Nodes.
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

    // Slurm.
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

    // Users.
    spec::Policy invent_policy();
    void plan_users();
    void plan_open_jobs();
    void put_into_open(const std::string& key, spec::JobSpec& spec);
    void put_behind_array(spec::JobSpec& spec);
    void close_open();
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
    bool in_bytes_ = false;  // what travels is encoded and decoded
    bool clock_jumps_ = false;
    int clock_is_off_ = 0;  // rolld's wall clock, in seconds
    std::uint64_t order_ = 0;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> network_;

    core::Events ledger_;                     // what was committed
    std::unique_ptr<StoredLedger> stored_{};  // and where, in some worlds
    std::vector<Time> ledger_times_;
    std::unique_ptr<engine::Engine> engine_;
    std::uint64_t life_ = 0;
    int down_until_ = 0;
    int stalled_until_ = 0;  // rolld stands still, in a commit or anywhere
    int slow_commit_ = 0;    // seconds that the next commit takes
    std::optional<Pending> pending_{};
    std::size_t synced_ = 0;                  // of ledger_: what follows was being committed
    std::vector<std::size_t> unsure_ends_{};  // of the commits that follow it
    bool takes_over_ = false;                 // the next rolld, from a copy
    bool claimed_ = false;                    // it has written the beacon
    std::uint64_t reign_ = 0;                 // incarnation of the newest that took over
    bool full_ = false;
    bool behind_ = false;  // the last turn was refused
    Crash crash_ = Crash::None;
    std::optional<Time> wakeup_;
    std::size_t audited_ = 0;
    Time stepped_at_{};  // the last turn, by rolld's clock
    std::vector<Request> inbox_;
    std::vector<Said> socket_;            // that have come
    std::vector<std::string> renewed_{};  // sessions that were heard for this turn, and hear rolld
    std::optional<gateway::Sessions> sessions_;
    std::map<WorkerId, protocol::Answer> orders_{};  // of the last turn
    std::uint64_t published_ = 0;                    // beats
    std::deque<Beat> beacon_;                        // what the file has held, newest last
    int volume_lost_until_ = 0;                      // rolld cannot write the beacon

    spec::Policy policy_;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> errands_;
    std::unique_ptr<FakeSlurm> slurm_{};  // none: a world without
    std::optional<pilots::Desk> desk_{};
    spec::PilotQueue queue_{};
    int frail_ = 0;                // a node at work fails once in so many seconds; 0: never
    std::optional<int> polled_{};  // the last squeue of this life of rolld
    std::optional<int> polled_before_{};
    std::optional<int> asked_nodes_{};  // the last question about nodes
    bool said_down_ = false;            // a node was, since the last squeue
    std::optional<int> said_down_at_{};
    bool at_slurm_ = false;  // an errand is under way
    struct Gone {
        int silent = 0;  // seconds
        int known = 0;   // for how long rolld could have known
    };
    std::map<std::string, Gone> gone_{};  // dead nodes
    struct Forsaken {  // an attempt of which a member was given up on Slurm's word
        std::string node;
        std::uint64_t incarnation = 0;
        std::uint64_t renewed_at = 0;  // the worker's last renewal, by the beacon's counter
    };
    std::map<AttemptKey, Forsaken> forsaken_{};
    std::size_t noted_ = 0;  // of ledger_: in these it was looked for what was given up
    std::map<std::string, int> unused_{};  // jobs that should go back, since when
    std::size_t seen_ = 0;                 // of Slurm's jobs, by note_excess()

    std::deque<Node> nodes_;
    std::size_t machines_ = 0;  // the first of nodes_, which are always there
    std::uint64_t sessions_made_ = 0;
    std::set<std::string> volume_{};             // directories of checkpoints
    std::map<std::string, spec::JobSpec> keys_;  // what users submit
    std::map<std::string, JobId> known_;         // what users were told
    Auditor auditor_;
    Totals totals_;
};

}  // namespace roll::sim
