#include "worker/train/optim/adafactor.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/train/optim/rules.hpp"

namespace roll::train {
namespace {

// The regularization constants of the paper, with transformers' defaults. kSquareLeast is added to
// each squared gradient. The learning rate is multiplied by the root mean square of a parameter;
// kScaleLeast is the lower bound of this root mean square.
constexpr double kSquareLeast = 1e-30, kScaleLeast = 1e-3;

// Returns, for each row of a whole parameter, the index of the HuggingFace module to which the row
// belongs.
at::Tensor modules_of_rows(const spec::ModelConfig& c, const ParameterSpec& spec,
                           const at::TensorOptions& options) {
    const std::int64_t rows = whole_sizes(spec)[0], modules = modules_in(spec.name);
    const at::Tensor row = at::arange(rows, options.dtype(at::kLong));
    if (modules == 1) return at::zeros_like(row);
    if (modules == 2) return row.ge(rows / 2).to(at::kLong);
    const std::int64_t queries = c.heads / c.kv_heads * c.head_dim;
    const at::Tensor in_group = row.remainder(rows / c.kv_heads);
    return in_group.ge(queries).to(at::kLong) + in_group.ge(queries + c.head_dim).to(at::kLong);
}

// The update of one parameter, and its sums over the whole parameter. The tensors of the sums are
// views of buffers. The buffers are summed over the ranks.
struct Item {
    const Update& update;
    std::int64_t rows, columns, modules;  // sizes of the whole parameter; a vector has 1 column
    at::Tensor module_R = {};             // the result of modules_of_rows()
    at::Tensor count_M = {};              // number of rows of each module
    at::Tensor weights_M = {};            // sums of the squared weights
    // sums of the squared gradients, if the parameter is a matrix
    at::Tensor row_R = {}, column_MC = {};
    // sums of the squared elements of the update's direction (direction_of())
    at::Tensor moved_M = {};
    bool is_matrix() const { return row_R.defined(); }
    const ParameterSpec& spec() const { return update.parameters.specs[update.index]; }
};

Item item_of(const Update& update, const spec::ModelConfig& config) {
    const ParameterSpec& spec = update.parameters.specs[update.index];
    const auto& sizes = whole_sizes(spec);
    Item item{update, sizes[0], sizes.size() > 1 ? sizes[1] : 1, modules_in(spec.name)};
    item.module_R = modules_of_rows(config, spec, update.parameters.flat_weight.options());
    item.count_M = at::bincount(item.module_R, {}, item.modules).to(at::kDouble);
    return item;
}

// Returns the block `part` of `own`, a tensor of this rank's own rows, as a matrix.
at::Tensor block_of(const at::Tensor& own, const layout::Part& part) {
    if (part.size.size() < 2) return own.narrow(0, part.local[0], part.size[0]).unsqueeze(1);
    return own.narrow(0, part.local[0], part.size[0]).narrow(1, part.local[1], part.size[1]);
}

at::Tensor modules_in_part(const Item& item, const layout::Part& part) {
    return item.module_R.narrow(0, part.whole[0], part.size[0]);
}

// Returns this rank's own rows of the main weight. If the weight is stored as halves, this is a
// copy.
at::Tensor own_main(const Parameters& p, std::size_t i) {
    if (!p.flat_rest.defined()) return p.main[i];
    const at::Tensor copy = at::empty(own_rows(p, i, p.weight[i]).sizes(), main_type(p));
    copy_main(p, i, copy);
    return copy;
}

// Divides `buffer` among the items' sums. Returns the number of elements that these sums need.
std::int64_t place_sums(std::vector<Item>& items, const at::Tensor& buffer) {
    std::int64_t size = 0;
    const auto next = [&](std::int64_t count) {
        size += count;
        return buffer.defined() ? buffer.narrow(0, size - count, count) : at::Tensor();
    };
    for (Item& item : items) {
        item.weights_M = next(item.modules);
        if (item.spec().sizes.size() < 2) continue;
        item.row_R = next(item.rows);
        item.column_MC = next(item.modules * item.columns);
        if (buffer.defined()) item.column_MC = item.column_MC.view({item.modules, item.columns});
    }
    return size;
}

void add_squares(const Item& item, const WholeSums& sums) {
    const Parameters& p = item.update.parameters;
    const std::size_t i = item.update.index;
    const at::Tensor main = own_main(p, i);
    for (const layout::Part& part : sums.parts(i)) {
        const at::Tensor module = modules_in_part(item, part);
        const at::Tensor weight = block_of(main, part).to(at::kDouble);
        at::Tensor(item.weights_M).index_add_(0, module, weight.square().sum(1));
        if (!item.is_matrix()) continue;
        const at::Tensor square = block_of(p.own_grad[i], part)
                                      .to(at::kDouble)
                                      .mul(item.update.grad_scale)
                                      .square_()
                                      .add_(kSquareLeast);
        at::Tensor rows = item.row_R.narrow(0, part.whole[0], part.size[0]);
        rows.add_(square.sum(1));
        at::Tensor columns = item.column_MC.narrow(1, part.whole[1], part.size[1]);
        columns.index_add_(0, module, square);
    }
}

// Moves the means towards the squared gradients of this update.
void update_means(const Item& item) {
    const Update& update = item.update;
    const double keep =
        1 - std::pow(static_cast<double>(update.steps), update.options.adafactor.decay_rate);
    at::Tensor first = update.state[0], second = update.state[1];
    if (!item.is_matrix()) {
        if (first.numel() == 0) return;
        const at::Tensor grad = update.parameters.own_grad[update.index] * update.grad_scale;
        first.mul_(keep).add_(grad.square_().add_(kSquareLeast), 1 - keep);
        return;
    }
    first.mul_(keep).add_((item.row_R / item.columns).to(first.scalar_type()), 1 - keep);
    const at::Tensor mean_MC = item.column_MC / item.count_M.unsqueeze(1);
    second.mul_(keep).add_(mean_MC.to(second.scalar_type()), 1 - keep);
}

// Returns the direction of the update of a block: the gradient divided by the root of its factored
// second moment.
at::Tensor direction_of(const Item& item, const layout::Part& part) {
    const Update& update = item.update;
    const at::Tensor grad =
        block_of(update.parameters.own_grad[update.index], part) * update.grad_scale;
    if (!item.is_matrix()) return grad * block_of(update.state[0], part).rsqrt();
    const at::Tensor sum_M = at::zeros({item.modules}, update.state[0].options())
                                 .index_add_(0, item.module_R, update.state[0]);
    const at::Tensor mean_M = sum_M / item.count_M.to(sum_M.scalar_type());
    const at::Tensor module = modules_in_part(item, part);
    const at::Tensor row =
        (update.state[0].narrow(0, part.whole[0], part.size[0]) / mean_M.index_select(0, module))
            .rsqrt_();
    at::Tensor column = update.state[1].narrow(1, part.whole[1], part.size[1]).rsqrt();
    if (item.modules > 1) column = column.index_select(0, module);
    return grad.mul(row.unsqueeze(1)).mul_(column);
}

// Applies the weight decay and the clipped direction to this rank's own rows.
void move(const Item& item) {
    const Update& update = item.update;
    const Parameters& p = update.parameters;
    const std::size_t i = update.index;
    const spec::AdafactorSpec& options = update.options.adafactor;
    const at::Tensor numel_M = item.count_M * static_cast<double>(item.columns);
    at::Tensor lr_M = at::full_like(numel_M, update.lr);
    if (options.scale_parameter)
        lr_M.mul_((item.weights_M / numel_M).sqrt().clamp_min_(kScaleLeast));
    const at::Tensor clip_M =
        ((item.moved_M / numel_M).sqrt() / options.clip_threshold).clamp_min_(1);
    const at::Tensor main = own_main(p, i);
    const at::Tensor keep_M = (1 - lr_M * update.weight_decay).to(main.scalar_type());
    const at::Tensor step_M = (lr_M / clip_M).to(main.scalar_type());
    for (const layout::Part& part : parts_in(item.spec(), p.own[i])) {
        const at::Tensor module = modules_in_part(item, part);
        const at::Tensor step = step_M.index_select(0, module).unsqueeze(1);
        block_of(main, part)
            .mul_(keep_M.index_select(0, module).unsqueeze(1))
            .sub_(direction_of(item, part).mul_(step));
    }
    if (!p.flat_rest.defined()) return;
    for_slices(p, i, main, {},
               [](const auto& slice) { std::copy_n(slice.grad, slice.size, slice.weight); });
}

}  // namespace

void adafactor(std::span<const Update> updates, const spec::ModelConfig& config,
               const WholeSums& sums) {
    if (updates.empty()) return;
    std::vector<Item> items;
    std::int64_t modules = 0;
    for (const Update& update : updates)
        modules += items.emplace_back(item_of(update, config)).modules;
    const auto options = updates[0].parameters.flat_weight.options().dtype(at::kDouble);
    const at::Tensor squares = at::zeros({place_sums(items, {})}, options);
    place_sums(items, squares);
    for (const Item& item : items) add_squares(item, sums);
    sums.reduce(squares, Reduce::Sum);
    const at::Tensor moved = at::zeros({modules}, options);
    std::int64_t begin = 0;
    for (Item& item : items) {
        update_means(item);
        item.moved_M = moved.narrow(0, begin, item.modules);
        begin += item.modules;
        for (const layout::Part& part : sums.parts(item.update.index))
            item.moved_M.index_add_(0, modules_in_part(item, part),
                                    direction_of(item, part).to(at::kDouble).square_().sum(1));
    }
    sums.reduce(moved, Reduce::Sum);
    for (const Item& item : items) move(item);
}

}  // namespace roll::train
