// One seeded world: users, a network that loses, doubles and delays, nodes that die and come back,
// a volume that fills up, and a rolld (the real core and engine) that is killed and reads its
// ledger.
//
// Time goes in seconds. Faults stop after kFaultsEnd; from then on everything must come to its end.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/engine.hpp"
#include "tests/sim/auditor.hpp"
#include "tests/sim/process.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/slurm.hpp"

namespace roll::sim {

struct Totals {
    long seconds = 0;
    long events = 0;
    long restarts = 0;
    long refused_turns = 0;
    long jobs = 0;
    long attempts = 0;
    long checkpoints = 0;
    long orders = 0;       // sbatch commands
    long polls = 0;        // squeue commands
    long allocations = 0;  // that Slurm made of them
    long doubled = 0;      // of these: while another of the same name was alive
    long excess_most = 0;  // alive at once beyond the queue's max_jobs
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

    struct Node {
        std::string name;
        int slots = 0;
        int gpus = 0;
        std::string segment{};
        std::vector<int> gpu_numa{};
        bool old = false;  // its roll-worker is of version 1, which says no generation
        std::unique_ptr<Process> process{};
        std::optional<core::Pilot> pilot{};  // of one that comes and goes with a Slurm job
        std::string slurm_key{};
    };
    struct Request {
        core::Input input;
        std::function<void(const Result<core::Events>&)> reply{};
    };
    enum class Crash { None, BeforeCommit, AfterCommit };

    // The network and the clock.
    bool faulty() const { return second_ < kFaultsEnd; }
    bool chance(int percent) { return faulty() && random_.percent(percent); }
    Time now() const { return Time{std::chrono::seconds(100'000 + second_)}; }
    void later(int delay, std::function<void()> what);
    void send(std::function<void()> what);
    void deliver();

    // rolld.
    void boot();
    void die();
    Result<void> commit(std::span<const core::Event> events);
    void serve();
    void audit();
    void step();
    void settle_turn(const engine::Turn& turn, const std::vector<Request>& requests);
    void receive(const Heartbeat& heartbeat, std::uint64_t life);
    void claim(WorkerId worker, const Heartbeat& heartbeat);
    bool joined(const Heartbeat& heartbeat) const;
    bool is_alive(const std::string& session) const;
    void answer_all();
    Answer answer_to(const Heartbeat& heartbeat) const;
    void count_silence();
    std::optional<WorkerId> worker_of(const std::string& session) const;
    void check_replay() const;

    // Nodes.
    void live();
    void start_process(Node& node);
    void take_answer(const std::string& session, const Answer& answer);
    void check_started(const Node& node, const Copy& started) const;
    void note_writings(const Copy& copy);
    Peers peers_of(const Copy& copy) const;

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
    void start_pilot(const SlurmJob& job, int index);
    void check_given_back();
    void note_excess();

    // Users.
    spec::Policy invent_policy();
    void plan_users();
    spec::JobSpec invent(int number);
    void invent_shapes(spec::JobSpec& spec);
    void submit(const std::string& key, const spec::JobSpec& spec);
    void meddle();
    void calm_down();
    void cancel_impossible();
    bool done() const;
    bool could_be_ordered(const spec::Resources& wanted) const;
    bool machines_hold(const spec::Resources& wanted) const;

    Random random_;
    int second_ = 0;
    std::int64_t beats_ = 0;
    std::uint64_t order_ = 0;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> network_;

    core::Events ledger_;
    std::vector<Time> ledger_times_;
    std::unique_ptr<engine::Engine> engine_;
    std::uint64_t life_ = 0;
    int down_until_ = 0;
    bool full_ = false;
    bool behind_ = false;  // the last turn was refused
    Crash crash_ = Crash::None;
    std::optional<Time> wakeup_;
    std::size_t audited_ = 0;
    std::vector<Request> inbox_;
    std::map<std::string, Heartbeat> heard_;         // this turn, by session
    std::map<std::string, std::uint64_t> newest_;    // heartbeat taken, by session
    std::map<WorkerId, std::int64_t> last_renewal_;  // beat

    spec::Policy policy_;
    std::map<std::pair<int, std::uint64_t>, std::function<void()>> errands_;
    std::unique_ptr<FakeSlurm> slurm_{};  // none: a world without
    std::optional<pilots::Desk> desk_{};
    spec::PilotQueue queue_{};
    std::optional<int> polled_{};          // the last squeue of this life of rolld
    std::map<std::string, int> unused_{};  // jobs that should go back, since when
    std::size_t seen_ = 0;                 // of Slurm's jobs, by note_excess()

    std::deque<Node> nodes_;
    std::size_t machines_ = 0;  // the first of nodes_, which are always there
    std::uint64_t sessions_ = 0;
    std::map<std::string, spec::JobSpec> keys_;  // what users submit
    std::map<std::string, JobId> known_;         // what users were told
    Auditor auditor_;
    Totals totals_;
};

}  // namespace roll::sim
