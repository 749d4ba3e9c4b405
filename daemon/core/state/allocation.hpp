// Slurm allocations in State: the allocation queues that users create, and the allocations that
// rolld has requested.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job/pilot_queue.hpp"
#include "common/time.hpp"

namespace roll::core {

// A queue from which rolld requests allocations, created by `rollctl alloc add`. rolld requests
// nothing from a queue that is paused or being removed.
struct AllocationQueue {
    spec::PilotQueue spec;
    bool paused = false;
    std::string reason{};  // why the queue is paused, or why its last request failed
    bool removing = false;
    // True once a worker of one of the queue's allocations has joined. Until then the queue
    // requests one allocation at a time.
    bool proven = false;
    int failures = 0;              // number of requests that failed in a row
    Time not_before{};             // rolld makes no request before this time, after a failure
    std::int64_t gpu_seconds = 0;  // GPU time that the queue's ended allocations used, in seconds
    friend bool operator==(const AllocationQueue&, const AllocationQueue&) = default;
};

// Phases: Ordered (requested) -> Pending -> Granted -> erased. If Slurm requeues an allocation, the
// phase becomes Pending again, and rolld releases the allocation. A new request is faster: Slurm
// starts a requeued job only after two minutes.
enum class AllocationPhase { Ordered, Pending, Granted };

struct Allocation {
    std::string queue;
    // Incarnation of the rolld that made the request. The incarnation and the allocation's id
    // together identify the request in Slurm.
    std::uint64_t incarnation = 0;
    AllocationPhase phase = AllocationPhase::Ordered;
    std::string slurm_job{};  // Slurm's job id; empty while Ordered
    Time ordered_at{};
    Time granted_at{};
    Time ends_at{};
    // latest of these times: the grant, the join of a worker, the end of work in the allocation
    Time used_at{};
    std::vector<std::string> nodes{};  // nodes of the workers that joined
    int joined = 0;                    // number of workers that joined
    // A user closed the allocation: no further job starts in it, and rolld releases it as soon as
    // no job runs in it.
    bool closed = false;
    bool releasing = false;
    bool failed = false;   // true if released because none of its workers could be used
    std::string reason{};  // why rolld releases the allocation
    friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Returns the name of the allocation request, which is unique within this ledger, e.g. "3.7".
std::string order_name(AllocationId id, const Allocation& allocation);

// Phase of the Slurm job that an allocation request has created.
enum class SlurmPhase { Pending, Running, Ended };

// The allocation in which a roll-worker runs, as the roll-worker reports it.
struct Pilot {
    AllocationId allocation;  // 0 if the allocation belongs to another ledger
    std::uint64_t incarnation = 0;
    std::string slurm_job{};
    Time ends_at{};
    friend bool operator==(const Pilot&, const Pilot&) = default;
};

}  // namespace roll::core
