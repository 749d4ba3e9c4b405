// Computes attention within segments, so that documents in one sequence do not attend to each
// other. Calls attention() for each segment of a row of positions. Letters are as in rope.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/train/ops/attention.hpp"

namespace roll::ops {

struct SegmentsSaved {
    std::vector<std::int64_t> starts;
    std::vector<AttentionSaved> parts;
};

// Returns o_BTA, the attention output. `starts` are the first positions of the segments, ascending
// from 0. If `starts` is not empty, B must be 1. If `starts` is empty, each of the B rows is one
// segment.
at::Tensor attention_within(const Heads& heads, const AttentionRule& rule,
                            std::span<const std::int64_t> starts, SegmentsSaved& saved,
                            const Place& place = {});

// Returns the gradients of q, k and v. Consumes `saved`.
Heads attention_within_backward(const at::Tensor& do_BTA, SegmentsSaved saved);

}  // namespace roll::ops
