// Reconciles allocations with Slurm, one errand (Slurm command) at a time: submits orders, polls
// their state, cancels them. Pure: others run the errands (runner.hpp; in tests a fake Slurm).
//
// Jobs are identified by our names, never by Slurm's ids alone. An order may be queued although
// sbatch failed, so it is looked up before it is sent again. A job missing from squeue counts as
// gone only after a while, and State requires that none of its workers is heard.
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
    // Time between two polls for a while after a worker fell silent.
    std::chrono::milliseconds hurried{5'000};
    // Duration of fast polling; by then the worker is lost or heard.
    std::chrono::milliseconds hurry{60'000};
    // Time between two questions about the nodes of silent workers.
    std::chrono::milliseconds nodes{3'000};
    std::chrono::milliseconds again{30'000};  // time between two scancel of the same job
    // Time until an order that may have been sent counts as not sent.
    std::chrono::milliseconds unsure{60'000};
    // Time until a job missing from squeue counts as gone.
    std::chrono::milliseconds missing{60'000};
    int missing_polls = 3;  // number of polls that must also lack it
    // Time for a job to appear after an sbatch without an answer or after a start of rolld.
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
    // `cluster` names the ledger; `now` is rolld's start time.
    Desk(std::string cluster, DeskRules rules, Instant now)
        : cluster_(std::move(cluster)),
          rules_(rules),
          began_(now),
          doubt_until_(now + rules.doubt),
          suspects_(rules.nodes, rules.hurry) {}

    // Returns the errand to run now; nullopt if none is due or one is running. The errand counts as
    // running from now on.
    std::optional<Errand> next(const core::State& state, Instant now);

    // Processes an errand's result. Returns claims for the core.
    std::vector<core::Input> take(const Outcome& outcome, const core::State& state, Instant now);

    // Speeds up polling after a worker fell silent, because Slurm may already know that the
    // worker's allocation is over. Only then is the silence of the last workers counted
    // (only_gone_are_left).
    void hurry(Instant now) { hurry_until_ = now + rules_.hurry; }

    // Returns claims about silent workers whose nodes Slurm reports as down. Call each turn after
    // all input is read.
    std::vector<core::Input> gone(const core::State& state, const std::set<WorkerId>& silent,
                                  Instant now);

    // Returns claims that need no errand: orders that are no longer wanted and were never sent.
    std::vector<core::Input> withdraw(const core::State& state) const;

    // Returns the time at which next() may have an errand without any change; nullopt if there is
    // nothing to watch.
    std::optional<Instant> wakeup(const core::State& state) const;

    // Returns true if every worker of State belongs to an allocation that Slurm reports as over.
    // Then no worker could report that rolld is cut off, so the workers' silence must be counted.
    bool only_gone_are_left(const core::State& state) const;

    // Returns, for display, Slurm's last state of an allocation, e.g. "PENDING (Resources)", and
    // its last error.
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
    std::optional<Instant> asked_{};         // start of the last squeue
    std::optional<Instant> asked_before_{};  // start of the squeue before the last
    std::optional<Instant> answered_{};      // start of the last successful squeue
    Instant hurry_until_{0};
    Instant doubt_until_;  // until then squeue is polled even if State holds no allocation
    std::map<AllocationId, Instant> sent_{};  // last attempt to send an order
    std::map<AllocationId, Absence> absent_{};
    std::set<AllocationId> over_{};  // allocations that Slurm last reported as over
    std::map<AllocationId, std::string> hearsay_{};
    // Slurm job id -> our key, for jobs that State does not hold.
    std::map<std::string, std::string> strays_{};
    std::map<std::string, Instant> cancelled_{};  // Slurm job id -> last scancel
    Suspects suspects_;
    std::string trouble_{};
};

}  // namespace roll::pilots
