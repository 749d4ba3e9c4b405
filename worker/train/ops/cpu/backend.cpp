#include "worker/train/comm/backend.hpp"

#include "worker/train/process/failure.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {

Backend take_backend(const protocol::Launch& launch, int /*rank*/) {
    if (!launch.gpus.empty())
        throw RankFailure(protocol::kExitUnfit,
                          "the job was given GPUs, but roll-rank computes only on CPUs; GPUs "
                          "need roll-rank-cuda");
    keep_freed_memory();
    return {at::kCPU, [](GlooFabric& fabric, const std::string& name,
                         const std::vector<int>& ranks) { return fabric.group(name, ranks); }};
}

}  // namespace roll::train
