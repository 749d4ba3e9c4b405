#include "worker/train/model/linear.hpp"

#include <ATen/ATen.h>

#include "worker/train/model/packed_base.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::train {

bool Linear::is_shared(families::Split by) const {
    return split == by && tp != nullptr && tp->size() > 1;
}

at::Tensor Linear::bias_O() const { return bias < 0 ? at::Tensor() : parameters.weight[bias]; }

// Returns the weight. A packed weight is unpacked (packed_base.hpp).
at::Tensor Linear::weight_OI() const {
    return weight_of(parameters, static_cast<std::size_t>(weight));
}

bool Linear::is_frozen(int parameter) const {
    return parameters.specs[static_cast<std::size_t>(parameter)].frozen;
}

at::Tensor Linear::length_O() const {
    const auto computed = [&] {
        Communicator* const sharing = is_shared(families::Split::Row) ? tp : nullptr;
        return row_lengths(parameters, adapter, weight_OI(), sharing, {Site::AdapterNorm, layer});
    };
    if (lengths == nullptr) return computed();
    const auto found = lengths->find(weight);
    return found != lengths->end() ? found->second
                                   : lengths->emplace(weight, computed()).first->second;
}

// Returns the product of x_MI with this rank's columns of the weight, plus the adapter's product
// for the same columns. The bias is not added.
at::Tensor Linear::product(const at::Tensor& x_MI, const ops::Place& place) const {
    const at::Tensor w_OI = weight_OI();
    if (adapter.is_dora())
        return dora_forward(parameters, adapter, w_OI, x_MI,
                            dora_factors(parameters, adapter, length_O()));
    at::Tensor y_MO = ops::linear(x_MI, w_OI, {}, place);
    add_lora(parameters, adapter, y_MO, x_MI);
    return y_MO;
}

at::Tensor Linear::forward(const at::Tensor& x_MI, const ops::Place& place) const {
    if (!is_shared(families::Split::Row)) {
        const bool gathers = is_shared(families::Split::Column) && rows.is_split();
        const at::Tensor all_MI =
            gathers ? gather_rows(rows, x_MI, {Site::ColumnRows, layer, -1, again}) : x_MI;
        if (adapter.is_dora()) {
            const at::Tensor y_MO = product(all_MI, place);
            return bias < 0 ? y_MO : y_MO.add_(bias_O());
        }
        at::Tensor y_MO = ops::linear(all_MI, weight_OI(), bias_O(), place);
        add_lora(parameters, adapter, y_MO, all_MI);
        return y_MO;
    }
    at::Tensor y_MO;
    if (rows.is_split()) {
        y_MO = reduce_rows(rows, product(x_MI, {}), {Site::RowOutput, layer, -1, again}, place);
    } else {
        y_MO = product(x_MI, place);
        sum_over(*tp, y_MO, {Site::RowOutput, layer, -1, again});
    }
    return bias < 0 ? y_MO : y_MO.add_(bias_O());
}

at::Tensor Linear::forward_add(const at::Tensor& residual_MO, const at::Tensor& x_MI,
                               const ops::Place& place) const {
    if (is_shared(families::Split::Row)) return forward(x_MI, place).add_(residual_MO);
    const at::Tensor sum_MO = bias < 0 ? residual_MO : residual_MO + bias_O();
    if (adapter.is_dora()) return product(x_MI, place).add_(sum_MO);
    at::Tensor y_MO = ops::linear_add(sum_MO, x_MI, weight_OI(), place);
    add_lora(parameters, adapter, y_MO, x_MI);
    return y_MO;
}

at::Tensor Linear::whole_grad(const at::Tensor& dy_MO) const {
    const bool gathers = is_shared(families::Split::Row) && rows.is_split();
    return gathers ? gather_rows(rows, dy_MO, {Site::RowGrad, layer}) : dy_MO;
}

at::Tensor Linear::backward_input(const at::Tensor& dy_MO) const {
    if (adapter.is_dora())
        return dora_backward_input(parameters, adapter, weight_OI(), dy_MO,
                                   dora_factors(parameters, adapter, length_O()));
    at::Tensor dx_MI = ops::linear_backward_input(dy_MO, weight_OI());
    add_lora_backward(parameters, adapter, dx_MI, dy_MO);
    return dx_MI;
}

void Linear::owe(const at::Tensor& dy_MO, const at::Tensor& x_MI,
                 const Contribute& contribute) const {
    const AddGrad nothing = [](const at::Tensor&, ops::Sum) {};
    if (adapter.is_dora())
        owe_dora(parameters, adapter, weight_OI(), dy_MO, x_MI, length_O(), contribute);
    else
        owe_lora(parameters, adapter, dy_MO, x_MI, contribute);
    if (bias >= 0 && is_frozen(bias)) {
        contribute(bias, nothing);
    } else if (bias >= 0) {
        contribute(bias, [dy_MO](const at::Tensor& db_O, ops::Sum sum) {
            ops::linear_backward_bias(dy_MO, db_O, sum);
        });
    }
    if (is_frozen(weight)) return contribute(weight, nothing);
    contribute(weight, [dy_MO, x_MI](const at::Tensor& dw_OI, ops::Sum sum) {
        ops::linear_backward_weight(dy_MO, x_MI, dw_OI, sum);
    });
}

at::Tensor Linear::backward(const at::Tensor& dy_MO, const at::Tensor& x_MI,
                            const Contribute& contribute) const {
    if (!is_shared(families::Split::Column)) {
        owe(dy_MO, x_MI, contribute);
        return backward_input(dy_MO);
    }
    const Tag tag{Site::ColumnInput, layer};
    if (!rows.is_split()) {
        const at::Tensor dx_MI = backward_input(dy_MO);
        const Communicator::Ticket ticket = tp->all_reduce(dx_MI, Reduce::Sum, tag);
        owe(dy_MO, x_MI, contribute);
        tp->wait(ticket);
        return dx_MI;
    }
    PendingRows all_MI = start_gather(rows, x_MI, {Site::ColumnRows, layer});
    PendingRows dx_SI = start_reduce(rows, backward_input(dy_MO), tag);
    owe(dy_MO, all_MI.finish(), contribute);
    return dx_SI.finish();
}

}  // namespace roll::train
