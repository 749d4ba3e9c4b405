// Explains why a rank ran out of memory, based on the plan of its job.
#pragma once

#include <cstdint>
#include <string>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {

// Returns one sentence with what the rank was doing, the size that it requested, and the largest
// parts of the memory that the plan predicts for the rank. The sentence also has the three settings
// that save the most memory, with the predicted savings.
std::string out_of_memory_text(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                               int rank, bool on_gpu, const OutOfMemory& failure);

// Returns the largest train.micro_batch_size with which every rank fits parallel.memory_limit, in
// the same layout; 0 if there is none.
std::int64_t largest_microbatch(spec::TrainSpec spec, const spec::ModelConfig& model, bool on_gpu);

}  // namespace roll::train
