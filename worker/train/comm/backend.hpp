// The device that a rank computes on, and the communicator for its tensors.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {

struct Backend {
    at::Device device;

    // Creates a communicator group like GlooFabric::group(), for tensors on `device`.
    std::function<std::unique_ptr<Communicator>(GlooFabric& fabric, const std::string& name,
                                                const std::vector<int>& ranks)>
        group;

    // Returns the memory use of `device`. This function is empty on a CPU.
    std::function<DeviceMemory()> memory = {};
};

// Returns this rank's backend and makes its device the current device of this thread. The function
// is defined in ops/cpu for roll-rank and in ops/cuda for roll-rank-cuda. Throws RankFailure
// (refused) if the machine lacks what the job needs.
Backend take_backend(const protocol::Launch& launch, int rank);

}  // namespace roll::train
