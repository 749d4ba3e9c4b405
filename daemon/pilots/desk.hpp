// What rolld does at Slurm's counter, one errand at a time: orders allocations, looks how they
// stand, gives them back. Pure: the errands are run by others (runner.hpp; in tests a fake Slurm).
//
// Only names of ours count, never Slurm's ids alone. An order may have reached Slurm though sbatch
// failed, so it is looked for before it is sent again; what squeue does not show is believed gone
// only after a while, and by State only if none of its workers is heard.
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
    std::chrono::milliseconds poll{20'000};    // between two squeue
    std::chrono::milliseconds hurried{5'000};  // the same for a while after a worker fell silent
    std::chrono::milliseconds hurry{60'000};   // for how long: it is lost or heard by then
    std::chrono::milliseconds nodes{3'000};   // between two questions about nodes of silent workers
    std::chrono::milliseconds again{30'000};  // between two scancel of the same job
    std::chrono::milliseconds unsure{60'000};   // until an order that may have been sent is not
    std::chrono::milliseconds missing{60'000};  // until a job that squeue left out is gone
    int missing_polls = 3;                      // and at least so many left it out
    std::chrono::milliseconds doubt{600'000};   // how long after an sbatch without an answer, or a
                                                // start of rolld, its job may still turn up
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
    // `cluster` names the ledger; `now` is when this rolld began.
    Desk(std::string cluster, DeskRules rules, Instant now)
        : cluster_(std::move(cluster)),
          rules_(rules),
          began_(now),
          doubt_until_(now + rules.doubt),
          suspects_(rules.nodes, rules.hurry) {}

    // The errand to run now, if one is due and none is under way; it is under way from then on.
    std::optional<Errand> next(const core::State& state, Instant now);

    // What came of it: claims for the core.
    std::vector<core::Input> take(const Outcome& outcome, const core::State& state, Instant now);

    // A worker fell silent: Slurm may know already that its allocation is over, and only then is
    // the silence of the last workers counted (only_gone_are_left).
    void hurry(Instant now) { hurry_until_ = now + rules_.hurry; }

    // Of each turn, once everybody was heard: which workers are silent. Claims about those of whose
    // nodes Slurm says that they are down.
    std::vector<core::Input> gone(const core::State& state, const std::set<WorkerId>& silent,
                                  Instant now);

    // Claims that need no errand: an order that is no longer wanted and was never sent.
    std::vector<core::Input> withdraw(const core::State& state) const;

    // When next() has something to say though nothing changes. None: there is nothing to watch.
    std::optional<Instant> wakeup(const core::State& state) const;

    // Whether every worker of State came with an allocation that Slurm says is over: then nobody is
    // left whom rolld's beats could tell that rolld is cut off, and their silence must be counted.
    bool only_gone_are_left(const core::State& state) const;

    // For people: what Slurm last said of an allocation ("PENDING (Resources)"), and of itself.
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
    std::optional<Instant> asked_{};         // when the last squeue began
    std::optional<Instant> asked_before_{};  // and the one before it
    std::optional<Instant> answered_{};      // when the last good one began
    Instant hurry_until_{0};
    Instant doubt_until_;  // until then squeue is asked though State holds nothing
    std::map<AllocationId, Instant> sent_{};  // the last try of an order
    std::map<AllocationId, Absence> absent_{};
    std::set<AllocationId> over_{};  // by what Slurm last said
    std::map<AllocationId, std::string> hearsay_{};
    std::map<std::string, std::string> strays_{};  // Slurm's id -> our key: not in State
    std::map<std::string, Instant> cancelled_{};   // Slurm's id -> the last scancel
    Suspects suspects_;
    std::string trouble_{};
};

}  // namespace roll::pilots
