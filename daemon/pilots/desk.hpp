// Reconciles the allocations of State with Slurm: submits allocation requests, polls their state
// and cancels them. Each Slurm command is an errand, and only one errand runs at a time. The class
// is pure: the caller runs the errands (runner.hpp; in tests a fake Slurm).
//
// A request's job in Slurm is identified by the request's key, never by Slurm's id alone. Slurm may
// have queued a request even if sbatch failed. rolld therefore looks for its job before sending the
// request again. A job that squeue does not show counts as gone only after a while. While a worker
// in that job sends heartbeats, the job does not count as gone.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/core.hpp"
#include "daemon/pilots/suspects.hpp"
#include "daemon/slurm/parse.hpp"

namespace roll::pilots {

struct DeskRules {
    std::chrono::milliseconds poll{20'000};  // time between two polls (squeue)
    // Time between two fast polls. Polling is fast for a while after a worker fell silent.
    std::chrono::milliseconds hurried{5'000};
    // Time for which polling stays fast after a worker fell silent. At the end of this time, the
    // worker is either lost or sends heartbeats again.
    std::chrono::milliseconds hurry{60'000};
    // Time between two calls of scontrol that ask about the nodes of silent workers.
    std::chrono::milliseconds nodes{3'000};
    std::chrono::milliseconds again{30'000};  // time between two calls of scancel for the same job
    // Time after which a request that may have been sent is sent again if squeue does not show it.
    std::chrono::milliseconds unsure{60'000};
    // Time after which a job that squeue does not show counts as gone.
    std::chrono::milliseconds missing{60'000};
    // a job counts as gone only after this number of polls in a row that do not show it
    int missing_polls = 3;
    // Time that an unknown job may take to appear in squeue, after an sbatch without a result or
    // after a start of rolld.
    std::chrono::milliseconds doubt{600'000};
};

// clang-format off
struct Submit { AllocationId allocation; std::string key; spec::PilotQueue queue; };
struct Poll { };
struct AskNodes { std::vector<std::string> nodes; };
struct Cancel { std::string slurm_job; std::string key; };
using Errand = std::variant<Submit, Poll, Cancel, AskNodes>;

struct Submitted {
    AllocationId allocation; slurm::Submission result = slurm::Submission::Unknown;
    std::string slurm_job; std::string reason;
};
struct Polled { Result<std::vector<slurm::QueueRow>> rows; };
struct Cancelled { std::string key; std::string trouble; };
struct NodesTold { Result<std::vector<slurm::NodeRow>> rows; };
using Outcome = std::variant<Submitted, Polled, Cancelled, NodesTold>;
// clang-format on

class Desk {
  public:
    // `cluster` is the id of this rolld's ledger. The keys of this rolld's requests in Slurm
    // contain this id. `now` is the time of rolld's start.
    Desk(std::string cluster, DeskRules rules, Instant now)
        : cluster_(std::move(cluster)),
          rules_(rules),
          began_(now),
          doubt_until_(now + rules.doubt),
          suspects_(rules.nodes, rules.hurry) {}

    // Returns the errand to run now; nullopt if none is due or one is still running. The errand
    // counts as running until take() gets its outcome.
    std::optional<Errand> next(const core::State& state, Instant now);

    // Takes the outcome of an errand. Returns the inputs for the core that follow from it.
    std::vector<core::Input> take(const Outcome& outcome, const core::State& state, Instant now);

    // Makes polling faster for a while. Call hurry() after a worker fell silent, because Slurm may
    // already know that the worker's allocation has ended. The faster polls matter most if all
    // workers have ended: rolld then counts no silence until only_gone_are_left() is true.
    void hurry(Instant now) { hurry_until_ = now + rules_.hurry; }

    // Returns a NodeDown input for each silent worker whose node is down according to Slurm. Call
    // it in each turn after all input is read.
    std::vector<core::Input> gone(const core::State& state, const std::set<WorkerId>& silent,
                                  Instant now);

    // Returns an input for each request that is no longer wanted and was never sent to Slurm. No
    // Slurm command is needed to withdraw such a request.
    std::vector<core::Input> withdraw(const core::State& state) const;

    // Returns the next time at which next() may return an errand even if State has not changed;
    // nullopt if there is nothing to poll.
    std::optional<Instant> wakeup(const core::State& state) const;

    // Returns whether every worker of State belongs to an allocation that Slurm reports as ended.
    // No worker can then confirm an answer of rolld, so rolld publishes ticks without a
    // confirmation.
    bool only_gone_are_left(const core::State& state) const;

    // Returns the state that Slurm last reported for an allocation, for display: "PENDING
    // (Resources)". trouble() returns the error of the last errand; empty if it succeeded.
    std::string hearsay(AllocationId id) const;
    const std::string& trouble() const { return trouble_; }

    std::string key_of(const core::State& state, AllocationId id) const;

  private:
    struct Absence {
        Instant since{};
        int polls = 0;
    };

    bool was_sent(const core::State& state, AllocationId id) const;
    bool may_send(const core::State& state, AllocationId id, Instant now) const;
    std::optional<Errand> give_back(const core::State& state, AllocationId id, Instant now);
    std::optional<Errand> cancel(const std::string& job, const std::string& key, Instant now);
    std::optional<Errand> look_around(const core::State& state, Instant now);
    bool watches(const core::State& state) const;
    Instant next_poll() const;
    std::vector<core::Input> look(const std::vector<slurm::QueueRow>& rows,
                                  const core::State& state, Instant now);
    void note_absent(AllocationId id, Instant now, std::vector<core::Input>& inputs);
    void find_strays(const std::vector<slurm::QueueRow>& rows, const core::State& state);

    std::string cluster_;
    DeskRules rules_;
    Instant began_;
    bool busy_ = false;
    std::optional<Instant> asked_{};         // time at which squeue was last started
    std::optional<Instant> asked_before_{};  // time at which squeue was started before `asked_`
    std::optional<Instant> answered_{};      // start of the last squeue that succeeded
    Instant hurry_until_{0};
    Instant doubt_until_;  // until this time, squeue is polled even if State has no allocation
    // time at which each request was last sent, or may last have been sent
    std::map<AllocationId, Instant> sent_{};
    std::map<AllocationId, Absence> absent_{};
    std::set<AllocationId> over_{};  // allocations that Slurm last reported as ended
    std::map<AllocationId, std::string> hearsay_{};
    // Jobs in Slurm that State does not hold: maps the Slurm job id to the request's key.
    std::map<std::string, std::string> strays_{};
    std::map<std::string, Instant> cancelled_{};  // time of the last scancel, by Slurm job id
    Suspects suspects_;
    std::string trouble_{};
};

}  // namespace roll::pilots
