// The part of an output layer that a rank has, if the vocabulary is split over ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

// The part of the vocabulary that this rank's output layer has: the tokens [begin, begin + count).
// Further rows of the weight are padding, and the softmax ignores these rows.
struct VocabularyShard {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int64_t vocab = 0;  // number of tokens in all shards
    // Sends own_RN to the other shards. Returns the tensors of all shards, [shards, R, N], in the
    // order of the shards. An operator calls this function once or twice for each block of rows.
    std::function<at::Tensor(const at::Tensor& own_RN)> gather;
};

// Returns the shard of a vocabulary that is not split.
VocabularyShard whole_vocabulary(std::int64_t vocab);

}  // namespace roll::ops
