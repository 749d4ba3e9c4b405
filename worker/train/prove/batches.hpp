// Makes the micro-batches that a proof of a layout trains on.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Generator.h>

#include "common/spec/train/train.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the micro-batches of a step of all replicas; the first replica's come first. Tokens are
// drawn with the step's number as the seed. The micro-batches have different numbers of targets
// that count in the loss. If there are more than two micro-batches, no target of the last
// micro-batch counts in the loss. If the job keeps documents apart, each row has three segments. If
// the job trains on preferences, a micro-batch is one row of whole pairs or answers.
std::vector<Microbatch> proof_batches(const spec::TrainSpec& spec, std::int64_t vocab, int step);

// Returns what a teacher with random logits predicts for `rows` rows: at most `top_k` tokens each.
TeacherValues invented_teacher(std::int64_t rows, std::int64_t vocab, std::int64_t top_k,
                               at::Generator& generator);

}  // namespace roll::train
