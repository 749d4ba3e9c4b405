#include "worker/train/model/vocabulary.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "worker/train/model/tensor_shard.hpp"
#include "worker/train/ops/embedding.hpp"

namespace roll::train {

Vocabulary::Vocabulary(const spec::ModelConfig& config, Communicator* tp)
    : tp_(tp != nullptr && tp->size() > 1 ? tp : nullptr) {
    if (tp_ == nullptr) return;
    vocab_ = config.vocab;
    const std::int64_t rows = vocabulary_rows(config, tp_->size());
    begin_ = std::min(tp_->rank() * rows, config.vocab);
    count_ = std::min(begin_ + rows, config.vocab) - begin_;
}

// Returns a mask of the tokens that are in this rank's part of the vocabulary.
at::Tensor Vocabulary::has(const at::Tensor& tokens_M) const {
    return tokens_M.ge(begin_).logical_and_(tokens_M.lt(begin_ + count_));
}

at::Tensor Vocabulary::embedding(const at::Tensor& tokens_M, const at::Tensor& w_VC,
                                 const RowSplit& rows) const {
    if (tp_ == nullptr) return ops::embedding(tokens_M, w_VC);
    const at::Tensor absent_M = has(tokens_M).logical_not_();
    at::Tensor x_MC = ops::embedding((tokens_M - begin_).masked_fill_(absent_M, 0), w_VC);
    x_MC.masked_fill_(absent_M.unsqueeze(1), 0);
    if (rows.is_split()) return reduce_rows(rows, x_MC, {Site::Embedding});
    sum_over(*tp_, x_MC, {Site::Embedding});
    return x_MC;
}

void Vocabulary::embedding_backward_weight(const at::Tensor& dy_MC, const at::Tensor& tokens_M,
                                           const at::Tensor& dw_VC, ops::Sum sum) const {
    if (tp_ == nullptr) return ops::embedding_backward_weight(dy_MC, tokens_M, dw_VC, sum);
    const at::Tensor rows = has(tokens_M).nonzero().flatten();
    ops::embedding_backward_weight(dy_MC.index_select(0, rows),
                                   tokens_M.index_select(0, rows) - begin_, dw_VC, sum);
}

ops::Head Vocabulary::head(const at::Tensor& w_VC, double soft_cap) const {
    if (tp_ == nullptr) return {w_VC, soft_cap};
    return {w_VC, soft_cap,
            ops::VocabularyShard{begin_, count_, vocab_, [tp = tp_](const at::Tensor& own_RN) {
                                     return gather_over(*tp, own_RN, {Site::Loss});
                                 }}};
}

// Each rank has the same number of logits. The logits after the last token of the vocabulary are
// padding.
at::Tensor Vocabulary::gather_logits(const at::Tensor& own_MV) const {
    if (tp_ == nullptr) return own_MV;
    const at::Tensor all_PMV = gather_over(*tp_, own_MV, {Site::Sample});
    return all_PMV.transpose(0, 1).flatten(1).narrow(1, 0, vocab_);
}

at::Tensor Vocabulary::sum_input_grad(const at::Tensor& dx_MC, const RowSplit& rows) const {
    if (rows.is_split()) return reduce_rows(rows, dx_MC, {Site::HeadInput});
    if (tp_ != nullptr) sum_over(*tp_, dx_MC, {Site::HeadInput});
    return dx_MC;
}

}  // namespace roll::train
