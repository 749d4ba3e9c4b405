// What is remembered of the machines' faults, and which are left out for them.
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
    bool certain = false;  // a check of the machine itself failed
    bool lost = false;     // its worker was lost or restarted: one fault, whatever ran there
    bool common = false;   // others had one at the same time: not held against this machine
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};           // since it was last forgiven, oldest first
    std::optional<Time> excluded_until{};  // gets nothing new until then
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes of attempts, by roll-worker (docs/internals.md): the job's output takes no more; a
// check of the node failed, the job's own or the site's.
inline constexpr int kExitRefused = 4;
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

// Of a node's name: pilots on one machine have names of their own, "gpu7.a12".
std::string machine_of(const std::string& node);

bool is_excluded(const State& state, const Worker& worker);

// The job's current attempt ends as an infra failure: remembers it of the machine that is to blame.
// Not counted: a machine that was about to go, a worker that is lost (note_loss() counts that) and
// the job's output (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// The worker is about to be erased as lost: one fault of its machine if it ran something and was
// not about to go.
void note_loss(State& state, WorkerId id, Time at);

// Why a machine is to be excluded for its faults since then; empty: it is not.
std::string fault_of(const State& state, const Machine& machine, Time since);

// Whether an excluded machine would not be, had been known then what is now: that others had the
// same faults at the same time.
bool was_innocent(const State& state, const Machine& machine);

}  // namespace roll::core
