// Computes causal grouped-query attention. Dimension letters are as in rope.hpp; A = H D. The whole
// score matrix is never stored. Instead, forward saves log(sum(exp(scores))) for each position,
// from which backward recomputes the probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

// Returns o_BTA, the attention output, and fills `saved`. On a CPU, `place` allocates the result;
// on a GPU, `place` is ignored.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Returns the gradients of q, k and v. For bfloat16 on a CPU, the gradients are float32, and
// rope_backward() rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

// Computes attention within segments, so that documents in one sequence do not attend to each
// other. Calls attention() for each segment of a row of positions.
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
