// An observer that checks what rolld promises to its users, and knows nothing of how the core
// achieves this.
//
// It folds the committed events into its own model. It aborts (ROLL_CHECK) if the earlier events do
// not allow an event, or if a turn leaves something undone that it should have done.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/core.hpp"

namespace roll::sim {

class Auditor {
  public:
    // Takes a committed event. Call it for all events in order, with the time of their turn.
    void observe(const core::Event& event, Time at);
    // Checks the state after a turn. `calm`: the last fault is long enough ago that delays are
    // checked, too.
    void check(const core::State& state, Time now, bool calm);

    // Records that a user was told that rolld has queued `key` as `job`.
    void acknowledged(const std::string& key, JobId job) { acknowledged_[key] = job; }
    // Records that the programs of an attempt have really written, or deleted, this checkpoint.
    void wrote(JobId job, std::int64_t step, const Token& token) {
        written_.insert({job, step, token});
    }
    void deleted(JobId job, std::int64_t step, const Token& token) {
        deleted_.insert({job, step, token});
    }

    // Returns the auditor of a rolld that starts with a copy of the ledger. `events` are the events
    // in the copy. This rolld may not know later acknowledgements and checkpoints.
    Auditor of_copy(std::span<const core::Event> events, std::span<const Time> times,
                    const core::State& state) const;

    // Returns whether rolld now has this attempt, with a member on that worker or node.
    bool is_current(const AttemptKey& key, WorkerId worker) const;
    bool is_current(const AttemptKey& key, const std::string& node) const;
    // Returns whether a member of a training job that has not ended is on the worker.
    bool trains_on(WorkerId worker) const;
    // Returns the step of the attempt's newest recorded checkpoint; 0 if there is none.
    std::int64_t recorded(const AttemptKey& key) const { return jobs_.at(key.job).run->recorded; }

    // Checks that every acknowledged job is in `state`. Called after each replay, too.
    void check_acknowledged(const core::State& state) const;
    // Checks the state at the end of the world.
    void finish(const core::State& state) const;

  private:
    struct Member {
        core::Place place{};
        std::string node{};
        bool up = false;
        std::optional<core::MemberEnded> ended{};
    };
    struct Run {
        Token token{};
        spec::Resources given{};
        // the job starts in the places of the previous attempt, with a spare in place of a lost
        // node
        bool replaces = false;
        std::vector<Member> members{};
        std::vector<core::MemberEnded> ends{};
        bool started = false;
        bool stopping = false;
        bool preempted = false;
        bool limit_at_stop = false;     // the time limit had been reached at the stop
        bool deadline_at_stop = false;  // the deadline had passed at the stop
        std::uint64_t asked = 0;        // number of the newest requested checkpoint
        std::optional<Time> asked_at{};
        std::uint64_t requested = 0;                 // number of the newest request to the training
        std::map<std::uint64_t, Time> unanswered{};  // requests without an answer, and their times
        std::int64_t recorded = 0;  // step of this attempt's newest recorded checkpoint
        Time since{};
    };
    struct Job {
        spec::JobSpec spec{};
        std::string user{};
        std::int64_t gpu_ms = 0;    // GPU time of the job's ended attempts
        std::vector<Usage> used{};  // what its ended attempts used, as their members told
        Time submitted{};
        bool held = false;
        bool closed = false;  // this group takes no more jobs
        std::optional<Time> cancelled{};
        bool halved = false;  // successive halving requested the cancellation
        bool was_running_at_cancel = false;
        std::optional<Run> run{};
        Token last{};
        std::optional<core::AttemptEnded> last_end{};
        std::set<WorkerId> last_held{};
        std::set<std::string> avoid{};  // nodes where the job failed and that it must avoid
        spec::Resources last_given{};
        std::set<int> matched{};  // patterns matched in the logs of the last attempt
        int infra = 0;
        int app = 0;
        int timeouts = 0;
        int preemptions = 0;
        int stalled = 0;
        std::int64_t newest = 0;  // step of the newest recorded checkpoint
        std::vector<std::int64_t> save_ms{};
        std::int64_t best = 0;  // value of `newest` when the last attempt ended
        std::chrono::milliseconds backoff{};
        Time requeued{};
        Time placed{};
        int placed_in = 0;  // number of the turn in which the job was placed
        std::optional<Time> ended{};
        bool time_was_up = false;
        Time not_before{};
        bool was_due = false;  // stays true once it is true, even if the clock is set back
        JobId array{};
        std::optional<core::JobPhase> over{};
        bool requeue_due = false;
        bool replacing = false;
        std::optional<JobId> export_job{};
        std::optional<JobId> sent{};  // newest job that this cron job queued
    };
    struct Worker {
        std::string node{};
        int slots = 0;
        int gpus = 0;
        std::int64_t memory = 0;
        int cpus = 0;
        bool draining = false;
        bool quiet = false;
        AllocationId allocation{};
        std::string segment{};
    };
    struct Allocation {
        bool granted = false;
        bool releasing = false;
        bool closed = false;  // no job may start in it, and it is released as soon as it is idle
        Time ends_at{};
        Time used_at{};
    };
    struct Fault {
        Time at{};
        JobId job{};
        bool certain = false;  // a check of the machine failed
    };
    // What is free on a worker.
    struct Free {
        std::set<int> slots{};
        std::map<int, int> gpus{};  // hundredths of each GPU
        std::int64_t memory = 0;
        int cpus = 0;
    };
    using Room = std::map<WorkerId, Free>;

    void on(const core::IncarnationRaised& e);
    void on(const core::JobSubmitted& e);
    void on(const core::ExportQueued& e);
    void on(const core::JobHeld& e);
    void on(const core::JobClosed& e);
    void on(const core::JobPriorityChanged& e);
    void on(const core::JobCancelRequested& e);
    void on(const core::JobRequeued& e);
    void on(const core::JobDue& e);
    void on(const core::PolicySet& e) { policy_ = e.policy; }
    void on(const core::JobBeginChanged& e);
    void on(const core::JobEnded& e);
    void on(const core::AttemptPlaced& e);
    void on(const core::AttemptStarted& e);
    void on(const core::AttemptStopping& e);
    void on(const core::MemberEnded& e);
    void on(const core::AttemptEnded& e);
    void on(const core::CheckpointAsked& e);
    void check_requests(const Run& r) const;
    void on(const core::TrainingAsked& e);
    void on(const core::TrainingAnswered& e);
    void on(const core::CheckpointRecorded& e);
    void on(const core::CheckpointPruned& e);
    void on(const core::ExportRecorded& e);
    void on(const core::WorkerJoined& e);
    void on(const core::MachineExcluded& e);
    void on(const core::MachineForgiven& e) { excluded_.erase(e.machine); }
    void on(const core::WorkerDrained& e);
    void on(const core::DispatchStopped& e) { stopped_ = e.stopped; }
    void on(const core::AdoptingSet& e) { adopting_ = e.adopting; }
    void on(const core::WorkerQuiet& e) { workers_.at(e.worker).quiet = e.quiet; }
    void on(const core::WorkerLost& e);
    void note_faults(const Run& r, JobId id);
    static Usage sum_of(const std::vector<core::MemberEnded>& ends);
    void on(const core::QueueAdded& e);
    void on(const core::QueuePaused& e);
    void on(const core::AllocationOrdered& e);
    void on(const core::AllocationGranted& e);
    void on(const core::AllocationReturned& e);
    void on(const core::AllocationClosed& e);
    void on(const core::AllocationReleasing& e);
    void on(const core::AllocationEnded& e);
    void on(const core::PilotJoined& e);
    template <class Other>
    void on(const Other&) {}  // the auditor does not need the other events
    void on(const core::MemberUp& e);

    Job& job(JobId id);
    Run& run(const AttemptKey& key);
    template <class Is>
    bool has_member(const AttemptKey& key, const Is& is) const;
    Member& member(const AttemptKey& key, WorkerId worker);
    using Occupied = std::function<bool(const Job&)>;
    // Returns the capacity that the jobs named by `occupied` leave free.
    Room room(const Occupied& occupied) const;
    Room open_to(const Job& j, Room room, Time now) const;
    bool fits(const spec::Resources& wanted, const Room& room, Time now) const;
    bool spares_suffice(const Job& j) const;
    void check_places(const core::AttemptPlaced& e, const spec::Resources& given) const;
    void note_used(const Run& run);
    bool goes_back(const Worker& worker) const;
    bool is_closed(const Worker& worker) const;
    bool takes_work(const Worker& worker) const;
    static bool output_refused(const Job& job);
    static std::optional<spec::OnExit> meaning(const Job& job, core::Outcome outcome, int exit_code,
                                               const std::set<int>& matched);
    bool has_time(const Worker& worker, const spec::Resources& wanted, Time now) const;
    bool is_busy(AllocationId id) const;
    bool allowed(const Job& job) const;
    bool hopeless(const Job& job) const;
    void check_cron(const core::JobSubmitted& e);
    bool is_export(const Job& job) const;
    void check_into(const core::JobSubmitted& e);
    void check_open_end(const core::JobEnded& e) const;
    void check_open(JobId id, const Job& open) const;
    bool exported(JobId id) const;
    bool due(const Job& job, Time now) const {
        return allowed(job) && (job.was_due || due_at(job) <= now) && !array_is_full(job);
    }
    static Time due_at(const Job& job) {
        return std::max(job.not_before, job.spec.begin.value_or(Time{}));
    }
    bool array_is_full(const Job& job) const;
    // Return whether a running attempt has exceeded its time or deadline, and whether a job can no
    // longer be started before its deadline.
    static bool late(const Job& job, const Run& run, Time now);
    static bool limit_is_over(const Job& job, const Run& run, Time now);
    static Time::duration slow_save(const Job& j);
    Time::duration save_need(AllocationId id) const;
    double could_use() const;
    static bool too_late(const Job& job, Time now);
    void check_judgement(const core::AttemptEnded& e, const Run& run) const;
    struct Sum {
        int slots = 0;
        int gpus = 0;  // hundredths of GPUs
        int jobs = 0;
        std::int64_t gpu_ms = 0;
    };
    using Some = std::map<const Job*, spec::Resources>;
    template <class Mine>
    Sum sum(const Mine& mine, bool stopping_too, const Some& more) const;
    static bool within(const spec::Quota& quota, const Sum& sum);
    bool quotas_hold(const Some& more = {}) const;
    bool quota_allows(const Job& job, const spec::Resources& wanted, const Some& promised) const;
    std::vector<spec::Resources> shapes(const Job& job, Time now, const Some& promised = {}) const;
    bool borrows(const Job& job) const;
    bool owns(const Job& job) const;
    // A waiting job. A smaller `rank` is earlier in the order.
    struct Waiting {
        std::tuple<bool, Time, std::int64_t, JobId> rank;
        const Job* job = nullptr;
        spec::Resources wanted{};  // first of its variants that the workers can hold
    };
    Waiting rank(JobId id, const Job& job, Time now) const;
    // Returns whether a job that waits for a whole array is to ignore this job of the array,
    // because successive halving stopped it.
    bool is_halved_trial(const spec::After& after) const {
        return after.array && stopped_by_halving(jobs_.at(after.job));
    }
    static bool stopped_by_halving(const Job& j) {
        return j.halved && j.over == core::JobPhase::Cancelled;
    }
    std::vector<spec::After> each_awaited(const std::vector<spec::After>& afters) const;
    Time end_awaited(const spec::After& after) const;
    Time ready_since(const Job& job) const;
    std::vector<Waiting> waiting(Time now) const;
    std::optional<Time> earliest(const Waiting& first, Time now, const Occupied& without) const;
    bool holds_for(const Job& job, Time at, Time now) const;
    void check_placement(Time now) const;
    void check_backfill(const Waiting& first, Time now) const;
    void check_preemption(const core::AttemptStopping& e) const;
    void count_end(Job& job, const core::AttemptEnded& e);
    void check_duties(const core::State& state, Time now, bool calm) const;
    void check_actions(const core::State& state) const;
    void check_allocations(Time now) const;

    Time now_{};
    int turn_ = 0;  // number of the turn; needed because a time repeats if the clock is set back
    spec::Policy policy_{};
    std::uint64_t incarnation_ = 0;
    std::map<JobId, Job> jobs_;
    std::map<WorkerId, Worker> workers_;
    std::set<std::string> excluded_;                    // names of excluded machines
    std::map<std::string, std::vector<Fault>> faults_;  // by machine
    std::optional<spec::PilotQueue> queue_{};
    bool paused_ = false;
    bool stopped_ = false;   // no job is started and no allocation ordered
    bool adopting_ = false;  // no job is started
    std::map<AllocationId, Allocation> allocations_{};
    // By node: sessions of the workers that joined, oldest first.
    std::map<std::string, std::vector<std::string>> sessions_;
    std::map<std::string, JobId> acknowledged_;
    std::set<std::tuple<JobId, std::int64_t, Token>> written_;
    std::set<std::tuple<JobId, std::int64_t, Token>> deleted_;
    // Checkpoints that may have been written before a copy of the ledger was made, but that the
    // copy lacks.
    std::set<std::tuple<JobId, std::int64_t, Token>> forgotten_;
};

}  // namespace roll::sim
