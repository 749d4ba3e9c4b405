#include "worker/train/ops/linear.hpp"

#include <ATen/ATen.h>

// Exported by libtorch_cpu, in no header of the wheel. at::mm takes this way for bfloat16 alone;
// MKL, its way for float32, runs at half speed on CPUs that are not Intel's.
namespace at::native {
void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
}

namespace roll::ops {

void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, double beta) {
    if (out_MN.scalar_type() == at::kFloat && at::globalContext().userEnabledMkldnn()) {
        at::native::mkldnn_matmul(a_MK, b_KN, out_MN, static_cast<float>(beta), 1.0F);
    } else {
        at::Tensor out = out_MN;
        at::addmm_out(out, out, a_MK, b_KN, beta, 1);
    }
}

at::Tensor linear(const at::Tensor& x_MI, const at::Tensor& w_OI) {
    at::Tensor y_MO = at::empty({x_MI.size(0), w_OI.size(0)}, x_MI.options());
    matmul(y_MO, x_MI, w_OI.t(), 0);
    return y_MO;
}

at::Tensor linear_add(const at::Tensor& residual_MO, const at::Tensor& x_MI,
                      const at::Tensor& w_OI) {
    at::Tensor y_MO = residual_MO.clone();
    matmul(y_MO, x_MI, w_OI.t(), 1);
    return y_MO;
}

at::Tensor linear_backward_input(const at::Tensor& dy_MO, const at::Tensor& w_OI) {
    at::Tensor dx_MI = at::empty({dy_MO.size(0), w_OI.size(1)}, dy_MO.options());
    matmul(dx_MI, dy_MO, w_OI, 0);
    return dx_MI;
}

void linear_backward_weight(const at::Tensor& dy_MO, const at::Tensor& x_MI,
                            const at::Tensor& dw_OI, Sum sum) {
    matmul(dw_OI, dy_MO.t(), x_MI, sum == Sum::Add ? 1 : 0);
}

}  // namespace roll::ops
