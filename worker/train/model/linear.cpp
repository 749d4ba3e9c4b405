#include "worker/train/model/linear.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

bool Linear::is_shared(families::Split by) const {
    return split == by && tp != nullptr && tp->size() > 1;
}

at::Tensor Linear::bias_O() const { return bias < 0 ? at::Tensor() : parameters.weight[bias]; }

at::Tensor Linear::forward(const at::Tensor& x_MI, const ops::Place& place) const {
    if (!is_shared(families::Split::Row))
        return ops::linear(x_MI, parameters.weight[weight], bias_O(), place);
    at::Tensor y_MO = ops::linear(x_MI, parameters.weight[weight], {}, place);
    sum_over(*tp, y_MO, {Site::RowOutput, layer});
    return bias < 0 ? y_MO : y_MO.add_(bias_O());
}

at::Tensor Linear::forward_add(const at::Tensor& residual_MO, const at::Tensor& x_MI,
                               const ops::Place& place) const {
    if (is_shared(families::Split::Row)) return forward(x_MI, place).add_(residual_MO);
    const at::Tensor sum_MO = bias < 0 ? residual_MO : residual_MO + bias_O();
    return ops::linear_add(sum_MO, x_MI, parameters.weight[weight], place);
}

at::Tensor Linear::backward_input(const at::Tensor& dy_MO) const {
    at::Tensor dx_MI = ops::linear_backward_input(dy_MO, parameters.weight[weight]);
    if (is_shared(families::Split::Column)) sum_over(*tp, dx_MI, {Site::ColumnInput, layer});
    return dx_MI;
}

void Linear::owe(const at::Tensor& dy_MO, const at::Tensor& x_MI,
                 const Contribute& contribute) const {
    if (bias >= 0) {
        contribute(bias, [dy_MO, db_O = parameters.grad[bias]](ops::Sum sum) {
            ops::linear_backward_bias(dy_MO, db_O, sum);
        });
    }
    contribute(weight, [dy_MO, x_MI, dw_OI = parameters.grad[weight]](ops::Sum sum) {
        ops::linear_backward_weight(dy_MO, x_MI, dw_OI, sum);
    });
}

}  // namespace roll::train
