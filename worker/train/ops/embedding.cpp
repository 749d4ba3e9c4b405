#include "worker/train/ops/embedding.hpp"

#include <ATen/ATen.h>

namespace roll::ops {

at::Tensor embedding(const at::Tensor& tokens_M, const at::Tensor& w_VC) {
    return w_VC.index_select(0, tokens_M);
}

void embedding_backward_weight(const at::Tensor& dy_MC, const at::Tensor& tokens_M,
                               const at::Tensor& dw_VC, Sum sum) {
    if (sum == Sum::Replace) dw_VC.zero_();
    const at::Tensor part_MC = dy_MC.to(dw_VC.scalar_type());
    // Do not use index_add_ on a GPU: its result is nondeterministic and is rounded after each
    // addition.
    if (!dw_VC.is_cpu()) {
        dw_VC.add_(at::embedding_dense_backward(part_MC, tokens_M, dw_VC.size(0), -1, false));
        return;
    }
    dw_VC.index_add_(0, tokens_M, part_MC);
}

}  // namespace roll::ops
