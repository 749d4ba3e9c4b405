// Slurm allocations in State: what users let rolld order, and what is on order or granted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/pilot_queue.hpp"
#include "common/time.hpp"

namespace roll::core {

// What `rollctl alloc add` made. Nothing is ordered from one that is paused or being removed.
struct AllocationQueue {
    spec::PilotQueue spec;
    bool paused = false;
    std::string reason{};  // why it was paused, or what its last order came to if it failed
    bool removing = false;
    bool proven = false;           // a pilot of it has come: until then one order at a time
    int failures = 0;              // in a row
    Time not_before{};             // back-off after a failure
    std::int64_t gpu_seconds = 0;  // used by allocations that have ended
    friend bool operator==(const AllocationQueue&, const AllocationQueue&) = default;
};

// Ordered -> Pending -> Granted -> erased. One that Slurm puts back into its queue is Pending again
// and goes back: Slurm lets it wait for two minutes, and a new order does not.
enum class AllocationPhase { Ordered, Pending, Granted };

struct Allocation {
    std::string queue;
    std::uint64_t incarnation = 0;  // with the id it names the order to Slurm, once for all time
    AllocationPhase phase = AllocationPhase::Ordered;
    std::string slurm_job{};  // set from Pending on
    Time ordered_at{};
    Time granted_at{};
    Time ends_at{};
    Time used_at{};                    // since when it is idle, if it is
    std::vector<std::string> nodes{};  // that workers of it came from
    int joined = 0;                    // workers that have come
    bool releasing = false;
    bool failed = false;   // it is released because it is of no use
    std::string reason{};  // why it is released
    friend bool operator==(const Allocation&, const Allocation&) = default;
};

// "3.7": what the order is called besides the ledger's own name.
std::string order_name(AllocationId id, const Allocation& allocation);

// What Slurm says of an order.
enum class SlurmPhase { Pending, Running, Ended };

// Where a roll-worker says that it runs.
struct Pilot {
    AllocationId allocation;  // 0: of another ledger
    std::uint64_t incarnation = 0;
    std::string slurm_job{};
    Time ends_at{};
    friend bool operator==(const Pilot&, const Pilot&) = default;
};

}  // namespace roll::core
