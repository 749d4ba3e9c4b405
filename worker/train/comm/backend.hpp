// The device on which a rank computes, and the communicator for the tensors on this device.
#pragma once

#include <cstdint>
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

    // Creates a group's communicator for tensors on `device`. The arguments are those of
    // GlooFabric::group().
    std::function<std::unique_ptr<Communicator>(GlooFabric& fabric, const std::string& name,
                                                const std::vector<int>& ranks)>
        group;

    // Returns the memory that tensors use on `device`. On a CPU, `memory` is empty.
    std::function<DeviceMemory()> memory = {};

    // Returns a tensor of `size` zeros that the device can use, but whose bytes are in the host's
    // memory. Throws OutOfMemory. On a CPU, this function is empty.
    std::function<at::Tensor(std::int64_t size, const at::TensorOptions& options)> host_memory = {};
};

// Returns this rank's backend, and makes its device the current device of this thread. ops/cpu
// defines this function for roll-rank, and ops/cuda defines it for roll-rank-cuda. Throws
// RankFailure (refused) if the machine lacks something that the job needs.
Backend take_backend(const protocol::Launch& launch, int rank);

}  // namespace roll::train
