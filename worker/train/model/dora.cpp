#include "worker/train/model/dora.hpp"

#include <memory>

#include <ATen/ATen.h>

#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::train {
namespace {

// Returns the rows of `tensor_OX` that belong to `part`. The first dimension of the tensor is the
// layer's output rows. The result has sizes [groups, count, ...].
at::Tensor rows_of(const at::Tensor& tensor_OX, const LoraPart& part) {
    std::vector<std::int64_t> sizes = tensor_OX.sizes().vec();
    sizes[0] /= part.groups;
    sizes.insert(sizes.begin(), part.groups);
    return tensor_OX.view(sizes).narrow(1, part.begin, part.count);
}

// Returns a separate tensor [M, rows] with the columns of y_MO that belong to `part`.
at::Tensor outputs_of(const at::Tensor& y_MO, const LoraPart& part) {
    return y_MO.view({y_MO.size(0), part.groups, -1})
        .narrow(2, part.begin, part.count)
        .reshape({y_MO.size(0), -1});
}

void add_outputs(const at::Tensor& y_MO, const LoraPart& part, const at::Tensor& added_MN) {
    y_MO.view({y_MO.size(0), part.groups, -1})
        .narrow(2, part.begin, part.count)
        .add_(added_MN.view({y_MO.size(0), part.groups, -1}));
}

at::Tensor weight_of(const at::Tensor& w_OI, const LoraPart& part) {
    return rows_of(w_OI, part).reshape({-1, w_OI.size(1)});
}

at::Tensor scaled(const at::Tensor& y_MO, const at::Tensor& factor_O) {
    return (ops::wide(y_MO) * factor_O).to(y_MO.scalar_type());
}

// Returns W x' + s B A x' in the output rows of the adapted modules (the parts). Without dropout,
// x' is x, and the other rows are W x. With dropout, the other rows are 0.
at::Tensor products(const Parameters& p, const Adapter& adapter, const at::Tensor& w_OI,
                    const at::Tensor& x_MI) {
    at::Tensor y_MO;
    if (!adapter.drops()) {
        y_MO = ops::linear(x_MI, w_OI);
    } else {
        y_MO = at::zeros({x_MI.size(0), w_OI.size(0)}, x_MI.options());
        for (const LoraPart& part : adapter.parts)
            add_outputs(
                y_MO, part,
                ops::linear(dropped(x_MI, adapter.dropout, part.site), weight_of(w_OI, part)));
    }
    add_lora(p, adapter, y_MO, x_MI);
    return y_MO;
}

}  // namespace

at::Tensor row_lengths(const Parameters& p, const Adapter& adapter, const at::Tensor& w_OI,
                       Communicator* tp, Tag tag) {
    const LoraFactors factors = joined_factors(p, adapter.parts, w_OI.size(0));
    const at::Tensor sum_OI =
        at::addmm(ops::wide(w_OI), ops::wide(factors.b_OR), ops::wide(factors.a_RI));
    const at::Tensor square_O = sum_OI.square_().sum(1);
    if (tp != nullptr) sum_over(*tp, square_O, tag);
    // Round the lengths in the same way as the magnitudes. The factor magnitude / length is then
    // exactly 1 until training changes a weight.
    return square_O.sqrt().to(w_OI.scalar_type()).to(square_O.scalar_type());
}

void set_magnitudes(const Parameters& p, const Adapter& adapter, const at::Tensor& length_O) {
    for (const LoraPart& part : adapter.parts) {
        const auto i = static_cast<std::size_t>(part.magnitude);
        const at::Tensor own = main_to_write(p, i);
        own.copy_(rows_of(length_O, part).reshape({-1}));
        set_main(p, i, own);
    }
}

at::Tensor dora_factors(const Parameters& p, const Adapter& adapter, const at::Tensor& length_O) {
    const at::Tensor factor_O = at::ones_like(length_O);
    for (const LoraPart& part : adapter.parts) {
        const at::Tensor to = rows_of(factor_O, part);
        to.copy_(ops::wide(p.weight[part.magnitude]).view(to.sizes()) / rows_of(length_O, part));
    }
    return factor_O;
}

at::Tensor dora_forward(const Parameters& p, const Adapter& adapter, const at::Tensor& w_OI,
                        const at::Tensor& x_MI, const at::Tensor& factor_O) {
    if (!adapter.drops()) return scaled(products(p, adapter, w_OI, x_MI), factor_O);
    at::Tensor y_MO = ops::linear(x_MI, w_OI);
    add_lora(p, adapter, y_MO, x_MI);  // adds s B A x'
    for (const LoraPart& part : adapter.parts) {
        const at::Tensor x = dropped(x_MI, adapter.dropout, part.site);
        const at::Tensor base = ops::linear(x, weight_of(w_OI, part));
        const at::Tensor low =
            ops::linear(ops::linear(x, p.weight[part.a]), p.weight[part.b] * part.scale);
        const at::Tensor less_N = rows_of(factor_O, part).reshape({-1}) - 1;
        add_outputs(y_MO, part, scaled(base + low, less_N));
    }
    return y_MO;
}

at::Tensor dora_backward_input(const Parameters& p, const Adapter& adapter, const at::Tensor& w_OI,
                               const at::Tensor& dy_MO, const at::Tensor& factor_O) {
    const at::Tensor scaled_MO = scaled(dy_MO, factor_O);
    at::Tensor dx_MI = ops::linear_backward_input(adapter.drops() ? dy_MO : scaled_MO, w_OI);
    add_lora_backward(p, adapter, dx_MI, scaled_MO);
    if (!adapter.drops()) return dx_MI;
    for (const LoraPart& part : adapter.parts) {
        const at::Tensor less = outputs_of(scaled_MO - dy_MO, part);
        const at::Tensor dx = ops::linear_backward_input(less, weight_of(w_OI, part));
        dx_MI.add_(dropped(dx, adapter.dropout, part.site));
    }
    return dx_MI;
}

void owe_dora(const Parameters& p, const Adapter& adapter, const at::Tensor& w_OI,
              const at::Tensor& dy_MO, const at::Tensor& x_MI, const at::Tensor& length_O,
              const Contribute& contribute) {
    const at::Tensor scaled_MO = scaled(dy_MO, dora_factors(p, adapter, length_O));
    owe_lora(p, adapter, scaled_MO, x_MI, contribute);
    // the gradients of m for all output rows; computed when the first contribution is added
    const auto sums = std::make_shared<at::Tensor>();
    const auto made = [&p, adapter, w_OI, dy_MO, x_MI, length_O, sums]() -> const at::Tensor& {
        if (!sums->defined()) {
            const at::Tensor product_MO = ops::wide(products(p, adapter, w_OI, x_MI));
            *sums = (product_MO * ops::wide(dy_MO)).sum(0) / length_O;
        }
        return *sums;
    };
    for (const LoraPart& part : adapter.parts)
        contribute(part.magnitude, [made, part](const at::Tensor& dm_N, ops::Sum sum) {
            const at::Tensor own_N = rows_of(made(), part).reshape({-1});
            sum == ops::Sum::Add ? dm_N.add_(own_N) : dm_N.copy_(own_N);
        });
}

}  // namespace roll::train
