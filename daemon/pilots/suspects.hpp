// Watches silent workers of pilots that hold jobs, and asks Slurm about their nodes.
//
// A worker counts as gone early only if two witnesses agree. The worker is silent, and since then
// Slurm has confirmed in two ways: scontrol reports the worker's node down, and squeue reports that
// the allocation lost the node. A worker that is heard again is removed with all that was noted
// about it. Errors, truncated answers and unknown nodes are ignored.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core.hpp"
#include "daemon/slurm/parse.hpp"

namespace roll::pilots {

using Instant = std::chrono::milliseconds;  // of a steady clock

class Suspects {
  public:
    // `spacing` is the time between two questions, `patience` the time for which to ask about a
    // worker.
    Suspects(std::chrono::milliseconds spacing, std::chrono::milliseconds patience)
        : spacing_(spacing),
          patience_(patience) {}

    // Updates the set of suspects. Call each turn after all input is read, with the silent
    // workers.
    void watch(const core::State& state, const std::set<WorkerId>& silent, Instant now);

    // Returns the nodes to ask about now in one question; empty if it is not time.
    std::vector<std::string> question(Instant now);
    std::optional<Instant> next_question() const;

    // Records scontrol's answer to the last question.
    void note(const std::vector<slurm::NodeRow>& rows);

    // Returns true, once per worker, if scontrol reported the worker's node down and squeue has not
    // been asked about its allocation since then.
    bool take_doubt();

    // Returns the deadline for squeue to confirm a node reported down; nullopt if none is pending.
    std::optional<Instant> unproven_until() const;

    // Records squeue's answer. `lost` is true if the allocation has lost at least one node.
    void note(AllocationId allocation, bool lost);

    // Returns claims for the workers that both scontrol and squeue report as lost.
    std::vector<core::Input> gone() const;

  private:
    struct Suspect {
        std::string node;  // Slurm's name
        AllocationId allocation;
        Instant until{};     // no more questions after this time
        bool asked = false;  // included in a question that is running or answered
        bool down = false;
        bool proven = false;
    };

    std::chrono::milliseconds spacing_;
    std::chrono::milliseconds patience_;
    std::map<WorkerId, Suspect> all_{};
    std::optional<Instant> asked_{};  // start of the last question
    bool doubt_ = false;
};

}  // namespace roll::pilots
