// Computes causal grouped-query attention. Dimension letters are as in rope.hpp; A = H D. The whole
// score matrix is never stored. Instead, forward saves log(sum(exp(scores))) for each position,
// from which backward recomputes the probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

// Returns o_BTA, the attention output, and fills `saved`. There may be fewer queries than keys; the
// queries then belong to the last positions. On a CPU, `place` allocates the result; on a GPU,
// `place` is ignored.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Returns the gradients of q, k and v. For bfloat16 on a CPU, the gradients are float32, and
// rope_backward() rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

// The queries [query, query + queries) attend to the keys [key, key + keys) under attention()'s
// mask. The queries belong to the last of these keys' positions.
struct Piece {
    std::int64_t query = 0, queries = 0, key = 0, keys = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
};

// Returns the pieces of `positions` positions that are divided into segments. `starts` are the
// first positions of the segments, ascending from 0. If `starts` is empty, there are no pieces.
std::vector<Piece> segment_pieces(std::span<const std::int64_t> starts, std::int64_t positions);

struct PiecesSaved {
    std::vector<Piece> pieces;
    std::vector<AttentionSaved> parts;
    Heads heads = {};  // only if the parts have no heads: this rank's heads (context.hpp)
};

// Returns o_BTA, the attention output. Calls attention() for each piece, so that documents in one
// sequence do not attend to each other. If there are pieces, B must be 1, and every query must be
// in one piece. If there are none, each of the B rows attends to itself.
at::Tensor attention_within(const Heads& heads, const AttentionRule& rule,
                            std::span<const Piece> pieces, PiecesSaved& saved,
                            const Place& place = {});

// Returns the gradients of q, k and v. Consumes `saved`. `whole`: the heads of forward, if the
// parts of `saved` have no heads. Several pieces may then have the same keys, and the gradients of
// k and v are at least float32.
Heads attention_within_backward(const at::Tensor& do_BTA, PiecesSaved saved,
                                const Heads& whole = {});

}  // namespace roll::ops
