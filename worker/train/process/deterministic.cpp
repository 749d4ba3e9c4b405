#include "worker/train/process/deterministic.hpp"

#include <cstdlib>

#include <ATen/Context.h>

namespace roll::train {

// Changes only settings of GPUs. On CPUs, every sum already has a fixed order. How the threads
// divide a sum depends only on the number of threads, and the ranks' sums are added in a fixed
// order.
std::string make_deterministic(bool on_gpus) {
    if (!on_gpus)
        return "deterministic: true changes nothing on CPUs, where every sum has a fixed order";
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
    ::setenv("NCCL_ALGO", "Ring", 1);
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
    return "deterministic: true turns off atomic additions in the backward passes of attention and "
           "embedding, cuBLAS's per-stream workspaces, and NCCL's choice of algorithm; backward "
           "is slower";
}

}  // namespace roll::train
