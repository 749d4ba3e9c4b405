// Distillation: a model is trained to predict what a teacher predicts.
//
// The teacher's probabilities are known only for the K most probable tokens of each target.
// All other tokens count as one more class, the rest. Let q be the teacher's probabilities and p =
// softmax(l / t) those of the model with logits l, both at temperature t. With the sums over the K
// tokens, q_r = 1 - sum q_k and p_r = 1 - sum p_k, the divergence of a row is
//   sum q_k log(q_k / p_k) + q_r log(q_r / p_r)
// It is at most the divergence KL(q || p) over the whole vocabulary. Both are equal if K is the
// size of the vocabulary, and both are 0 if p is q. If the rest were left out, and q scaled to the
// sum 1, then the model would learn probabilities that are too high for the K tokens
// (arXiv:2503.16870, which calls the rest a ghost token). The derivative with respect to l / t is
//   p_k - q_k  for the K tokens, and  p_j (1 - q_r / p_r)  for each other token j
#pragma once

#include <cstdint>

#include "worker/train/ops/vocabulary_shard.hpp"

namespace roll::ops {

// The predictions of a teacher for M rows. With these rows, the loss of a row is (1 - weight) times
// its cross-entropy, plus weight times temperature^2 times its divergence (arXiv:1503.02531).
struct TeacherRows {
    at::Tensor ids_MK;        // int64; the K tokens of a row are different
    at::Tensor log_probs_MK;  // doubles: log-probabilities at the temperature
    double weight = 0;
    double temperature = 1;
    at::Tensor divergence_M;  // doubles; operators write each row's divergence to this tensor
};

struct Divergence {
    at::Tensor value_R;  // divergence of each row, doubles
    at::Tensor grad_RV;  // derivative of value_R with respect to the logits, of this shard's tokens
};

// Returns the divergence of a model with logits l_RV from the teacher's rows. Exchanges a few
// numbers per row with the other shards.
Divergence divergence(const at::Tensor& l_RV, const TeacherRows& teacher,
                      const VocabularyShard& shard);

struct TopTokens {
    at::Tensor ids_MK;        // int64
    at::Tensor log_probs_MK;  // doubles, descending
};

// Returns the `k` most probable tokens of each row of the logits at a temperature, on every shard.
// Requires that the vocabulary has at least `k` tokens.
TopTokens top_tokens(const at::Tensor& l_RV, std::int64_t k, double temperature,
                     const VocabularyShard& shard);

}  // namespace roll::ops
