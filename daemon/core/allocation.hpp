// Slurm allocations in State: the queues that users permit, and allocations ordered or granted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/pilot_queue.hpp"
#include "common/time.hpp"

namespace roll::core {

// Created by `rollctl alloc add`. A paused queue, or one being removed, orders nothing.
struct AllocationQueue {
    spec::PilotQueue spec;
    bool paused = false;
    std::string reason{};  // why it is paused, or the failure of its last order
    bool removing = false;
    // True once a pilot of the queue has joined. Until then the queue orders one allocation at a
    // time.
    bool proven = false;
    int failures = 0;              // consecutive failures
    Time not_before{};             // no order before this time, after a failure
    std::int64_t gpu_seconds = 0;  // used by ended allocations
    friend bool operator==(const AllocationQueue&, const AllocationQueue&) = default;
};

// Ordered -> Pending -> Granted -> erased. An allocation that Slurm requeues becomes Pending again
// and is given back, because Slurm makes it wait for two minutes and a new order does not wait.
enum class AllocationPhase { Ordered, Pending, Granted };

struct Allocation {
    std::string queue;
    std::uint64_t incarnation = 0;  // with the id, identifies the order in Slurm permanently
    AllocationPhase phase = AllocationPhase::Ordered;
    std::string slurm_job{};  // Slurm's job id; set from Pending on
    Time ordered_at{};
    Time granted_at{};
    Time ends_at{};
    Time used_at{};                    // time of the last use, or when it became idle
    std::vector<std::string> nodes{};  // nodes of the workers that joined
    int joined = 0;                    // number of workers that joined
    bool releasing = false;
    bool failed = false;   // it is released because it is of no use
    std::string reason{};  // why it is released
    friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Returns the order's name within this ledger, "3.7".
std::string order_name(AllocationId id, const Allocation& allocation);

// State of an order in Slurm.
enum class SlurmPhase { Pending, Running, Ended };

// The allocation that a roll-worker reports to run in.
struct Pilot {
    AllocationId allocation;  // 0: belongs to another ledger
    std::uint64_t incarnation = 0;
    std::string slurm_job{};
    Time ends_at{};
    friend bool operator==(const Pilot&, const Pilot&) = default;
};

}  // namespace roll::core
