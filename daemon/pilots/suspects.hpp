// Workers of pilots that are silent and hold something, and what Slurm says of their nodes.
//
// A worker is given up on Slurm's word only if two witnesses agree: the worker itself, which says
// nothing, and Slurm, asked since then in two ways: scontrol says that its node is down, and squeue
// that the allocation has lost it. Whoever speaks is a suspect no more, and what was said of it is
// forgotten. An error, a cut answer, a node that Slurm does not know: they say nothing.
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
    // `spacing`: between two questions; `patience`: for how long a worker is asked about.
    Suspects(std::chrono::milliseconds spacing, std::chrono::milliseconds patience)
        : spacing_(spacing),
          patience_(patience) {}

    // Of each turn, once everybody was heard: the silent ones.
    void watch(const core::State& state, const std::set<WorkerId>& silent, Instant now);

    // The nodes to ask about now, all in one question; none: it is not time.
    std::vector<std::string> question(Instant now);
    std::optional<Instant> next_question() const;

    // What scontrol answered to the last question.
    void note(const std::vector<slurm::NodeRow>& rows);

    // Whether a node was said to be down of whose allocation squeue was not asked since. Once true
    // of a worker it is not again.
    bool take_doubt();

    // While squeue has not said so of a node that is said to be down; none: there is no such node.
    std::optional<Instant> unproven_until() const;

    // What squeue says of an allocation: `lost`: it has lost a node, or all.
    void note(AllocationId allocation, bool lost);

    // Claims of those of which both say so.
    std::vector<core::Input> gone() const;

  private:
    struct Suspect {
        std::string node;  // Slurm's name of it
        AllocationId allocation;
        Instant until{};     // then it is not asked about any more
        bool asked = false;  // in a question that is under way, or was answered
        bool down = false;
        bool proven = false;
    };

    std::chrono::milliseconds spacing_;
    std::chrono::milliseconds patience_;
    std::map<WorkerId, Suspect> all_{};
    std::optional<Instant> asked_{};  // when the last question began
    bool doubt_ = false;
};

}  // namespace roll::pilots
