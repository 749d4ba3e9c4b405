// The embedding and the output layer of a model whose vocabulary may be split over the ranks of a
// tensor-parallel group.
#pragma once

#include <cstdint>

#include "common/spec/model.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

class Vocabulary {
  public:
    // `tp`: the tensor-parallel group; null: the vocabulary is not split.
    Vocabulary(const spec::ModelConfig& config, Communicator* tp);

    // Returns the embeddings of the tokens, [M, C], on every rank; with sequence parallelism, of
    // this rank's rows, [S, C].
    at::Tensor embedding(const at::Tensor& tokens_M, const at::Tensor& w_VC,
                         const RowSplit& rows) const;

    // Takes the gradient of all rows.
    void embedding_backward_weight(const at::Tensor& dy_MC, const at::Tensor& tokens_M,
                                   const at::Tensor& dw_VC, ops::Sum sum) const;

    // Returns the output layer. The operators on it exchange a few numbers per row; all ranks must
    // call them in the same order. The gradient of their input is this rank's summand.
    ops::Head head(const at::Tensor& w_VC, double soft_cap) const;

    // Returns the sum of the gradient of the output layer's input over the ranks; with sequence
    // parallelism, this rank's rows of it. May write to `dx_MC`.
    at::Tensor sum_input_grad(const at::Tensor& dx_MC, const RowSplit& rows) const;

  private:
    at::Tensor has(const at::Tensor& token_M) const;

    Communicator* tp_;        // null if the vocabulary is not split
    std::int64_t begin_ = 0;  // first token of this rank
    std::int64_t count_ = 0;  // number of tokens of this rank
};

}  // namespace roll::train
