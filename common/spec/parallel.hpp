// The mesh of parallel axes of a train job, and the schedule of its pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace roll::spec {

enum class Schedule {
    Auto,
    OneForwardOneBackward,
    Interleaved,
    Gpipe,
    ZeroBubbleH1,
    ZeroBubbleV,
    DualPipeV
};

// Convert between a schedule and its name in a job file; nullopt if there is no such name.
const char* name_of(Schedule schedule);
std::optional<Schedule> schedule_named(std::string_view name);

// Sizes of the axes of the mesh. If the file has no dp, dp is derived from the world size.
struct ParallelSpec {
    int dp = 1, tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1;
    Schedule schedule = Schedule::Auto;  // order of the pipeline's micro-batches
    int group = 0;  // micro-batches of a group of the interleaved schedule; 0: pp
    // Largest number of bytes of activations on a rank with Schedule::Auto; 0: no limit
    std::int64_t activation_limit = 0;
    // Number of layers of the first and the last pipeline stage; 0: as many as the other stages
    int first_layers = 0, last_layers = 0;
    // Count the embedding or the output layer as a layer when the layers are divided into stages
    bool account_for_embedding = false, account_for_loss = false;
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    // 1: the data-parallel ranks share optimizer state (ZeRO-1); 2: and gradients (ZeRO-2); 0: each
    // has all of them
    int zero = 0;
};

}  // namespace roll::spec
