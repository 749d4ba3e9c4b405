// The costs of one step of a train job: time in its pipeline, memory and sent bytes of its ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/plan/pipeline_check.hpp"
#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

// Bytes that are sent in one step.
struct SentBytes {
    // Bytes that a rank sends to the other replicas. `weights` is 0 without ZeRO.
    std::int64_t gradients = 0, weights = 0;
    std::int64_t tensor = 0;   // bytes that a rank sends to its tensor-parallel group
    std::int64_t context = 0;  // bytes that a rank sends to its context-parallel group
    std::int64_t message = 0;  // bytes of one message between two pipeline stages
};

struct JobCost {
    JobPipeline pipeline;
    plan::ScheduleReport report = {};
    std::vector<plan::MemoryBytes> memory = {};  // for each stage: the memory of its first rank
    SentBytes sent = {};

    // Returns the memory of the rank that needs the most.
    plan::MemoryBytes fullest() const;
};

// Simulates the job's pipeline, and computes the bytes that its ranks hold and send. Throws
// RankFailure(invalid) in the same cases as job_pipeline().
JobCost job_cost(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu);

}  // namespace roll::train
