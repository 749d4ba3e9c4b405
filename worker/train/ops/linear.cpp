#include "worker/train/ops/linear.hpp"

#include "common/processor.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/panel_matmul.hpp"

namespace roll::ops {
namespace {

// Minimum number of rows of a float32 product. For fewer rows, packing takes more time than it
// saves
constexpr std::int64_t kRowsMin = 32;

// Returns true if panel_matmul() suits this processor and the types of these CPU tensors.
bool takes_panels(const at::Tensor& out_MN, const at::Tensor& a_MK) {
    const Processor::Bfloat16 way = processor().bfloat16();
    switch (a_MK.scalar_type()) {
        case at::kHalf: return true;
        case at::kBFloat16:
            return way != Processor::Bfloat16::Tiles &&
                   !(way == Processor::Bfloat16::Pairs && is_narrow(out_MN));
        default:
            return out_MN.scalar_type() == at::kFloat && !processor().takes_mkl() &&
                   out_MN.size(0) >= kRowsMin;
    }
}

// If panel_matmul() suits the product, computes it and returns true. Otherwise, does nothing and
// returns false; the caller then uses LibTorch's product (MKL for float32, oneDNN for bfloat16).
bool multiply(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
              double beta) {
    if (!out_MN.is_cpu() || (beta != 0 && beta != 1) || !takes_panels(out_MN, a_MK)) return false;
    panel_matmul(out_MN, a_MK, b_KN, beta);
    return true;
}

// Size of a part of the product in bytes. A part of this size is still in a cache when the part is
// added to the sum.
constexpr std::int64_t kPartBytes = 2 << 20;

// Computes the weight gradient for types for which no library call multiplies and adds in one step.
// Works on a few outputs at a time: rounds the product to the type of x_MI, and adds it to dw_OI.
// The sum in dw_OI is not rounded to this type.
void add_rounded(const at::Tensor& dy_MO, const at::Tensor& x_MI, const at::Tensor& dw_OI,
                 Sum sum) {
    const std::int64_t outputs = dw_OI.size(0);
    const auto row = x_MI.size(1) * static_cast<std::int64_t>(x_MI.element_size());
    const std::int64_t block = std::min(outputs, std::max<std::int64_t>(64, kPartBytes / row));
    const at::Tensor part_BI = at::empty({block, x_MI.size(1)}, x_MI.options());
    for (std::int64_t begin = 0; begin < outputs; begin += block) {
        const std::int64_t count = std::min(block, outputs - begin);
        const at::Tensor part = part_BI.narrow(0, 0, count), dw = dw_OI.narrow(0, begin, count);
        matmul(part, dy_MO.narrow(1, begin, count).t(), x_MI, 0);
        sum == Sum::Add ? dw.add_(part) : dw.copy_(part);
    }
}

}  // namespace

void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, double beta) {
    if (multiply(out_MN, a_MK, b_KN, beta)) return;
    at::Tensor out = out_MN;
    at::addmm_out(out, out, a_MK, b_KN, beta, 1);
}

at::Tensor linear(const at::Tensor& x_MI, const at::Tensor& w_OI, const at::Tensor& bias_O,
                  const Place& place) {
    if (bias_O.defined()) return linear_add(bias_O.expand({x_MI.size(0), -1}), x_MI, w_OI, place);
    at::Tensor y_MO = made_in(place, {x_MI.size(0), w_OI.size(0)}, x_MI.options());
    matmul(y_MO, x_MI, w_OI.t(), 0);
    return y_MO;
}

at::Tensor linear_add(const at::Tensor& residual_MO, const at::Tensor& x_MI, const at::Tensor& w_OI,
                      const Place& place) {
    at::Tensor y_MO = made_in(place, residual_MO.sizes(), residual_MO.options());
    y_MO.copy_(residual_MO);
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
    if (x_MI.scalar_type() != dw_OI.scalar_type()) {
        if (multiply(dw_OI, dy_MO.t(), x_MI, sum == Sum::Add ? 1 : 0)) return;
        return add_rounded(dy_MO, x_MI, dw_OI, sum);
    }
    matmul(dw_OI, dy_MO.t(), x_MI, sum == Sum::Add ? 1 : 0);
}

void linear_backward_bias(const at::Tensor& dy_MO, const at::Tensor& dbias_O, Sum sum) {
    const at::Tensor part_O = dy_MO.sum(0, /*keepdim=*/false, dbias_O.scalar_type());
    sum == Sum::Add ? dbias_O.add_(part_O) : dbias_O.copy_(part_O);
}

}  // namespace roll::ops
