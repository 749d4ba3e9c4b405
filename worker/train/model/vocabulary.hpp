// The embedding and the output layer of a model whose vocabulary may be split over the ranks of a
// tensor-parallel group.
#pragma once

#include <cstdint>

#include "common/spec/train/model.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

class Vocabulary {
  public:
    // `tp`: the tensor-parallel group; null: the vocabulary is not split.
    Vocabulary(const spec::ModelConfig& config, Communicator* tp);

    // Returns the embeddings of the tokens: all rows, [M, C], on every rank or, with sequence
    // parallelism, this rank's rows, [S, C].
    at::Tensor embedding(const at::Tensor& tokens_M, const at::Tensor& w_VC,
                         const RowSplit& rows) const;

    // Computes dw_VC, the gradient of the embedding's weight. dy_MC, the gradient of the
    // embedding's output, must have all M rows, also with sequence parallelism.
    void embedding_backward_weight(const at::Tensor& dy_MC, const at::Tensor& tokens_M,
                                   const at::Tensor& dw_VC, ops::Sum sum) const;

    // Returns the output layer. Operators that use the layer exchange a few numbers per row, so all
    // ranks must call these operators in the same order. On each rank, such an operator computes
    // only a part of the gradient of its input; sum_input_grad() sums the parts.
    ops::Head head(const at::Tensor& w_VC, double soft_cap) const;

    // Returns the logits of all tokens, [M, V], from each rank's own logits.
    at::Tensor gather_logits(const at::Tensor& own_MV) const;

    // Sums the gradient of the output layer's input over the ranks. Returns the sum or, with
    // sequence parallelism, this rank's rows of the sum. May write to `dx_MC`.
    at::Tensor sum_input_grad(const at::Tensor& dx_MC, const RowSplit& rows) const;

  private:
    at::Tensor has(const at::Tensor& token_M) const;

    Communicator* tp_;        // null if the vocabulary is not split
    std::int64_t begin_ = 0;  // first token of this rank
    std::int64_t count_ = 0;  // number of tokens of this rank
    std::int64_t vocab_ = 0;  // number of tokens of all ranks
};

}  // namespace roll::train
