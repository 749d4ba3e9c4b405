// Records the faults of machines, and which machines are excluded because of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/time.hpp"

namespace roll::core {

struct State;
struct Worker;
struct Job;

struct Fault {
    Time at{};
    JobId job;
    bool certain = false;  // the fault was found by a check of the machine itself
    // The worker was lost or restarted; counts once, however many jobs ran there.
    bool lost = false;
    // Other machines failed at the same time, so the fault does not count against this machine.
    bool common = false;
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};  // oldest first; only faults since the machine was last forgiven
    std::optional<Time> excluded_until{};  // no new work before this time
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes that roll-worker gives to attempts (docs/internals.md): the job's output cannot be
// written; the job's check of the node failed; the site's check of the node failed.
inline constexpr int kExitRefused = 4;
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

// Returns the machine that a node name stands for. Workers in Slurm allocations on one machine have
// different node names: "gpu7.a12" is on the machine "gpu7".
std::string machine_of(const std::string& node);

bool is_excluded(const State& state, const Worker& worker);

// Records a fault of the machine that is blamed when the job's current attempt ends as an infra
// failure. Ignores machines that were draining or being released, lost workers (see note_loss())
// and outputs that could not be written (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records a fault of the machine of a lost worker, just before the worker is erased. Ignores a
// worker that ran nothing, or that was draining or being released.
void note_loss(State& state, WorkerId id, Time at);

// Returns why the machine's faults after `since` suffice to exclude the machine; empty if these
// faults do not suffice.
std::string fault_of(const State& state, const Machine& machine, Time since);

// Returns whether the machine would not have been excluded if later faults had been known: other
// machines had the same faults at the same time.
bool was_innocent(const State& state, const Machine& machine);

}  // namespace roll::core
