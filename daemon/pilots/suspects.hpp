// Watches silent workers that run in Slurm allocations and hold training jobs, and asks Slurm about
// their nodes.
//
// Normally a silent worker counts as gone after its silence limit. The worker counts as gone
// earlier if Slurm sends two reports after the worker fell silent: scontrol reports its node down,
// and squeue reports that its allocation has lost a node. Once the worker sends a heartbeat again,
// all records about the worker are dropped. Errors, truncated answers and nodes that Slurm does not
// know are ignored.
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

using Instant = std::chrono::milliseconds;  // time of a steady clock

class Suspects {
  public:
    // `spacing` is the time between two questions to scontrol. A suspect is a worker about whose
    // node scontrol is asked. After `patience`, no more questions about a suspect are asked.
    Suspects(std::chrono::milliseconds spacing, std::chrono::milliseconds patience)
        : spacing_(spacing),
          patience_(patience) {}

    // Updates the set of suspects: the silent workers that hold training jobs. Call watch() in each
    // turn after all input is read.
    void watch(const core::State& state, const std::set<WorkerId>& silent, Instant now);

    // Returns the nodes about which scontrol must be asked now, all in one question; empty if no
    // question is due.
    std::vector<std::string> question(Instant now);
    std::optional<Instant> next_question() const;

    // Records scontrol's answer to the last question.
    void note(const std::vector<slurm::NodeRow>& rows);

    // Returns whether squeue must be asked now. This is so if, since the last call, scontrol has
    // reported a node down and squeue has not confirmed that the node is down.
    bool take_doubt();

    // Returns the time until which squeue may confirm that a node is down; nullopt if no
    // confirmation is pending.
    std::optional<Instant> unproven_until() const;

    // Records squeue's answer about an allocation. `lost` is true if the allocation has lost at
    // least one node.
    void note(AllocationId allocation, bool lost);

    // Returns a NodeDown for each worker whose node both scontrol and squeue report as lost.
    std::vector<core::Input> gone() const;

  private:
    struct Suspect {
        std::string node;  // node name in Slurm
        AllocationId allocation;
        Instant until{};     // no question is asked after this time
        bool asked = false;  // true if a question about the node is running or was answered
        bool down = false;
        bool proven = false;
    };

    std::chrono::milliseconds spacing_;
    std::chrono::milliseconds patience_;
    std::map<WorkerId, Suspect> all_{};
    std::optional<Instant> asked_{};  // start of the newest question to Slurm
    bool doubt_ = false;
};

}  // namespace roll::pilots
