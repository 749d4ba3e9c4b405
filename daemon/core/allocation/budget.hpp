// Computes how many allocations a queue may request.
#pragma once

#include <string>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns how many allocations the queue's limits allow at once, including the `alive` allocations
// that exist now. Each of the `alive` allocations counts with the GPU-hours of its full time.
int most_alive(const AllocationQueue& queue, int alive);

// Numbers of allocations of one queue: how many it has, and how many it may still request.
struct Budget {
    const spec::PilotQueue* spec = nullptr;
    // True if the queue must wait before it requests an allocation: the queue backs off after a
    // failed request, or no worker of its first allocation has joined yet.
    bool later = false;
    int orders = 0;  // number of allocations that may be requested now
    int alive = 0;
    int waiting = 0;  // number of the queue's allocations that are not granted yet
    int most = 0;     // maximum number of the queue's allocations alive at once
};

// Returns the budget of the queue `name`. The queue must not be paused or removed.
Budget budget_of(const State& state, const std::string& name, const AllocationQueue& queue,
                 Time now);

}  // namespace roll::core
