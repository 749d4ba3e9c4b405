#include "worker/train/model/lora.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {
namespace {

std::int64_t lora_rank(const Parameters& p, const LoraPart& part) {
    return p.specs[static_cast<std::size_t>(part.a)].sizes[0];
}

// Returns the block of joined_OR that belongs to `part`; joined_OR is a joined B or its gradient.
// The block begins at column `column` of joined_OR and has sizes [groups, count, r].
at::Tensor block_of(const at::Tensor& joined_OR, const LoraPart& part, std::int64_t column,
                    std::int64_t r) {
    const std::int64_t width = joined_OR.size(1), rows = joined_OR.size(0) / part.groups;
    return joined_OR.as_strided({part.groups, part.count, r}, {rows * width, width, 1},
                                joined_OR.storage_offset() + part.begin * width + column);
}

// Calls body(part, column, r) for each part. The part's A is in rows [column, column + r) of the
// joined A, and its B is in these columns of the joined B.
template <class Body>
void for_parts(const Parameters& p, std::span<const LoraPart> parts, const Body& body) {
    std::int64_t column = 0;
    for (const LoraPart& part : parts) {
        const std::int64_t r = lora_rank(p, part);
        body(part, column, r);
        column += r;
    }
}

// Returns x_MI A^T, or x'_MI A^T with dropout, for the joined A of all parts.
at::Tensor inner(const Parameters& p, const Adapter& adapter, const at::Tensor& x_MI,
                 const at::Tensor& a_RI) {
    if (!adapter.drops()) return ops::linear(x_MI, a_RI);
    std::vector<at::Tensor> parts;
    for (const LoraPart& part : adapter.parts)
        parts.push_back(ops::linear(dropped(x_MI, adapter.dropout, part.site), p.weight[part.a]));
    return at::cat(parts, 1);
}

LoraFactors gradients(const Parameters& p, const Adapter& adapter, const at::Tensor& dy_MO,
                      const at::Tensor& x_MI) {
    const LoraFactors factors = joined_factors(p, adapter.parts, dy_MO.size(1));
    const at::Tensor u_MR = inner(p, adapter, x_MI, factors.a_RI);
    for_parts(p, adapter.parts, [&](const LoraPart& part, std::int64_t column, std::int64_t r) {
        u_MR.narrow(1, column, r).mul_(part.scale);
    });
    const at::TensorOptions kind = factors.a_RI.options().dtype(main_type(p));
    LoraFactors sums{at::empty(factors.a_RI.sizes(), kind), at::empty(factors.b_OR.sizes(), kind)};
    ops::linear_backward_weight(dy_MO, u_MR, sums.b_OR, ops::Sum::Replace);
    const at::Tensor du_MR = ops::linear_backward_input(dy_MO, factors.b_OR);
    if (!adapter.drops()) {
        ops::linear_backward_weight(du_MR, x_MI, sums.a_RI, ops::Sum::Replace);
        return sums;
    }
    for_parts(p, adapter.parts, [&](const LoraPart& part, std::int64_t column, std::int64_t r) {
        ops::linear_backward_weight(du_MR.narrow(1, column, r).contiguous(),
                                    dropped(x_MI, adapter.dropout, part.site),
                                    sums.a_RI.narrow(0, column, r), ops::Sum::Replace);
    });
    return sums;
}

void add_to(const at::Tensor& grad, const at::Tensor& part, ops::Sum sum) {
    sum == ops::Sum::Add ? grad.add_(part) : grad.copy_(part);
}

}  // namespace

LoraFactors joined_factors(const Parameters& p, std::span<const LoraPart> parts,
                           std::int64_t outputs) {
    if (parts.size() == 1 && parts[0].groups * parts[0].count == outputs)
        return {p.weight[parts[0].a], p.weight[parts[0].b] * parts[0].scale};
    std::vector<at::Tensor> a;
    std::int64_t total = 0;
    for (const LoraPart& part : parts) {
        a.push_back(p.weight[part.a]);
        total += lora_rank(p, part);
    }
    LoraFactors factors{at::cat(a), at::zeros({outputs, total}, a[0].options())};
    for_parts(p, parts, [&](const LoraPart& part, std::int64_t column, std::int64_t r) {
        const at::Tensor b_GNR = p.weight[part.b].view({part.groups, part.count, r});
        at::Tensor block = block_of(factors.b_OR, part, column, r);
        at::mul_out(block, b_GNR, at::native::wrapped_scalar_tensor(part.scale));
    });
    return factors;
}

void add_lora(const Parameters& p, const Adapter& adapter, const at::Tensor& y_MO,
              const at::Tensor& x_MI) {
    if (adapter.parts.empty()) return;
    const LoraFactors factors = joined_factors(p, adapter.parts, y_MO.size(1));
    ops::matmul(y_MO, inner(p, adapter, x_MI, factors.a_RI), factors.b_OR.t(), 1);
}

void add_lora_backward(const Parameters& p, const Adapter& adapter, const at::Tensor& dx_MI,
                       const at::Tensor& dy_MO) {
    if (adapter.parts.empty()) return;
    const LoraFactors factors = joined_factors(p, adapter.parts, dy_MO.size(1));
    const at::Tensor du_MR = ops::linear_backward_input(dy_MO, factors.b_OR);
    if (!adapter.drops()) return ops::matmul(dx_MI, du_MR, factors.a_RI, 1);
    for_parts(p, adapter.parts, [&](const LoraPart& part, std::int64_t column, std::int64_t r) {
        const at::Tensor dx =
            ops::linear_backward_input(du_MR.narrow(1, column, r).contiguous(), p.weight[part.a]);
        dx_MI.add_(dropped(dx, adapter.dropout, part.site));
    });
}

void owe_lora(const Parameters& p, const Adapter& adapter, const at::Tensor& dy_MO,
              const at::Tensor& x_MI, const Contribute& contribute) {
    if (adapter.parts.empty()) return;
    // gradients of the joined factors; computed when the first contribution is added
    const auto sums = std::make_shared<std::optional<LoraFactors>>();
    const auto made = [&p, adapter, dy_MO, x_MI, sums]() -> const LoraFactors& {
        if (!*sums) *sums = gradients(p, adapter, dy_MO, x_MI);
        return **sums;
    };
    for_parts(p, adapter.parts, [&](const LoraPart& part, std::int64_t column, std::int64_t r) {
        contribute(part.b, [made, part, column, r](const at::Tensor& db_NR, ops::Sum sum) {
            const at::Tensor block = block_of(made().b_OR, part, column, r);
            add_to(db_NR.view(block.sizes()), block, sum);
        });
        contribute(part.a, [made, column, r](const at::Tensor& da_RI, ops::Sum sum) {
            add_to(da_RI, made().a_RI.narrow(0, column, r), sum);
        });
    });
}

std::vector<LoraPart> lora_parts(const spec::ModelConfig& c, const LayerPlaces& places,
                                 std::int64_t layer, int first, int tp,
                                 std::initializer_list<spec::LoraPlace> of) {
    using spec::LoraPlace;
    std::vector<LoraPart> parts;
    const std::int64_t groups = c.kv_heads / tp, middle = c.intermediate / tp;
    const std::int64_t queries = c.heads / c.kv_heads * c.head_dim;
    for (const spec::LoraModule& module : c.lora.modules) {
        const bool is_here = std::find(of.begin(), of.end(), module.place) != of.end();
        if (!is_here || !module.is_of(layer)) continue;
        const auto place = static_cast<std::size_t>(module.place);
        LoraPart part{first + places.lora_a[place], first + places.lora_b[place], module.scale};
        part.site = static_cast<int>(place);
        if (c.lora.dora) part.magnitude = first + places.magnitude[place];
        switch (module.place) {
            case LoraPlace::Q: part.groups = groups, part.count = queries; break;
            case LoraPlace::K:
                part.groups = groups, part.begin = queries, part.count = c.head_dim;
                break;
            case LoraPlace::V:
                part.groups = groups, part.begin = queries + c.head_dim, part.count = c.head_dim;
                break;
            case LoraPlace::Gate: part.count = middle; break;
            case LoraPlace::Up: part.begin = part.count = middle; break;
            case LoraPlace::Out:
            case LoraPlace::Down: part.count = c.hidden; break;
        }
        parts.push_back(part);
    }
    return parts;
}

}  // namespace roll::train
