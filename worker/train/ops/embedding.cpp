#include "worker/train/ops/embedding.hpp"

#include <ATen/ATen.h>

namespace roll::ops {

at::Tensor embedding(const at::Tensor& tokens_M, const at::Tensor& w_VC) {
    return w_VC.index_select(0, tokens_M);
}

void embedding_backward_weight(const at::Tensor& dy_MC, const at::Tensor& tokens_M,
                               const at::Tensor& dw_VC, Sum sum) {
    if (sum == Sum::Replace) dw_VC.zero_();
    dw_VC.index_add_(0, tokens_M, dy_MC);
}

}  // namespace roll::ops
