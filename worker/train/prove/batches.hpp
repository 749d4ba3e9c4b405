// Makes the micro-batches with which a layout is proven.
#pragma once

#include <cstdint>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the micro-batches of a step of all replicas, the first replica's first. Tokens are drawn
// from the step's number. The micro-batches have different numbers of targets that count, as after
// prompts and in short rows, and the last one has none if there are more than two. If the job
// keeps documents apart, each row has three segments. If the job trains on preferences, a
// micro-batch is one row of whole pairs or labelled answers.
std::vector<Microbatch> proof_batches(const spec::TrainSpec& spec, std::int64_t vocab, int step);

}  // namespace roll::train
