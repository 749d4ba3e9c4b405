// The mesh of parallel axes of a train job, and the schedule of its pipeline.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
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

// Convert between a schedule and its name in a job file. schedule_named() returns nullopt if no
// schedule has this name.
const char* name_of(Schedule schedule);
std::optional<Schedule> schedule_named(std::string_view name);

// Selects the values of a decoder layer that forward does not save and backward computes again.
// Attention: queries, keys, values and the output of attention. Mlp: the output of the gate and up
// products. Full: all values except the layer's input. Auto: the cheapest set of layers that fits
// ParallelSpec::memory_limit.
enum class Recompute { None, Attention, Mlp, AttentionMlp, Full, Auto };

// Selects the layers to which Recompute::Full applies, as in Megatron. Uniform: all layers, in
// units of `recompute_layers` layers; only the input of each unit is kept. Block: the first
// `recompute_layers` layers of each chunk.
enum class RecomputeMethod { Uniform, Block };

// Convert between a kind and its name in a job file. recompute_named() returns nullopt if no kind
// has this name.
const char* name_of(Recompute recompute);
std::optional<Recompute> recompute_named(std::string_view name);

// Sizes of the axes of the mesh. If the file has no dp, dp is derived from the world size.
struct ParallelSpec {
    int dp = 1, tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1;
    Schedule schedule = Schedule::Auto;  // order of the pipeline's micro-batches
    // CSV file with the schedule; empty: `schedule` selects the schedule
    std::string schedule_file{};
    int group = 0;  // interleaved schedule: number of micro-batches in a group; 0: pp
    // Schedule::Auto: largest number of bytes of activations on a rank; 0: no limit
    std::int64_t activation_limit = 0;
    // Number of layers of the first and the last pipeline stage; 0: as many as the other stages
    int first_layers = 0, last_layers = 0;
    // account_for_embedding: the embedding counts as a layer when layers are divided into stages.
    // account_for_loss: the output layer counts as a layer.
    bool account_for_embedding = false, account_for_loss = false;
    // Megatron's layout string (pipeline_layout.hpp). It gives the layers of each part of the
    // pipeline. Empty: the fields above divide the layers
    std::string pipeline_layout{};
    // true: the layers are divided so that the slowest stage is as fast as possible
    bool stages_by_cost = false;
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    // ZeRO stage. 0: each of the replicas() has all optimizer state and all gradients; 1: the
    // replicas share the optimizer state; 2: they also share the gradients; 3: they also share the
    // weights.
    int zero = 0;
    Recompute recompute = Recompute::None;
    RecomputeMethod recompute_method = RecomputeMethod::Uniform;
    int recompute_layers = 1;
    std::int64_t memory_limit = 0;  // largest number of bytes that a rank may need; 0: no limit
    // Time after which a rank gives up a transfer that has not ended
    std::chrono::seconds collective_timeout{600};

    // Returns the number of ranks that have the same part of the model. They sum their gradients,
    // and share the optimizer state with ZeRO.
    int replicas() const { return dp * cp; }
};

}  // namespace roll::spec
