// The groups of ranks that a training step needs, and its options.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/spec/train/train.hpp"
#include "worker/train/comm/phase_clock.hpp"
#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct Groups {
    Communicator& pp;
    // the replicas: the ranks that have the same part of the model. With context parallelism, the
    // ranks of each cp group are neighbours in it.
    Communicator& dp;
    // group of the first and the last stage, if the output layer is tied to the embedding
    Communicator* tie = nullptr;
    // group of the ranks that share the tensors of this rank's chunks; null: none
    Communicator* tp = nullptr;
    PhaseClock* clock = nullptr;  // measures the phases of run(); null: no measurement
    // Called on this rank when run() begins its first forward, its first backward and its first
    // reduction of gradients, and when all gradients are summed
    std::function<void(spec::FaultPhase)> at_phase = {};
    // all ranks of the job, in the order of plan::Mesh; null: pp, dp or tp has all ranks
    Communicator* world = nullptr;
    Communicator* cp = nullptr;  // group of the ranks that share each sequence; null: none
};

struct TrainOptions {
    InitOptions init = {};
    spec::OptimizerSpec optimizer = {};  // learning rates in this spec are not used
    double clip_grad = 1.0;              // maximum global norm of the gradient; 0: no clipping
    bool count_zeros = false;
    spec::Normalize normalize = spec::Normalize::Step;
    spec::TokenLossSpec loss = {};  // options of the loss of each token; not used with `preference`
    // If set, micro-batches hold answers, and the loss is a mean over pairs or labelled answers.
    std::optional<spec::PreferenceSpec> preference = std::nullopt;
    // division of the layers among stages; pp and vpp come from the schedule
    StageSplit split = {};
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    // 0: each data-parallel rank has all optimizer state and gradients. 1: the ranks share
    // optimizer state (ZeRO-1). 2: the ranks share optimizer state and gradients (ZeRO-2). 3: the
    // ranks also share weights (ZeRO-3).
    int zero = 0;
    plan::Recomputed recompute = {};  // what each layer recomputes in backward; empty: nothing
    std::int64_t bucket_numel = 0;    // elements per gradient bucket; 0: plan::default_bucket_numel
};

}  // namespace roll::train
