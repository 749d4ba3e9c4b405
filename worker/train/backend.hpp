// What a rank computes on, and how its tensors travel.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/pipeline/memory.hpp"

namespace roll::train {

struct Backend {
    at::Device device;

    // GlooFabric::group, for tensors of that device.
    std::function<std::unique_ptr<Communicator>(GlooFabric& fabric, const std::string& name,
                                                const std::vector<int>& ranks)>
        group;

    // Of its device; empty where that is no GPU.
    std::function<DeviceMemory()> memory = {};
};

// This rank's, its device from now on the thread's own. cpu/ defines it for roll-rank, cuda/ for
// roll-rank-cuda. Throws RankFailure (refused) if the machine lacks what the job needs.
Backend take_backend(const protocol::Launch& launch, int rank);

}  // namespace roll::train
