#include "worker/train/optim/muon.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace roll::train {
namespace {

// Coefficients of the Newton-Schulz iteration, and the smallest norm that is used as a divisor. The
// values are those of torch.optim.Muon.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kNormMin = 1e-7;

// Returns views of `matrix`, one for each HuggingFace module that is fused in it.
std::vector<at::Tensor> modules_of(const spec::ModelConfig& c, const std::string& name,
                                   const at::Tensor& matrix) {
    if (name.ends_with("linear_fc1.weight"))
        return {matrix.narrow(0, 0, c.intermediate),
                matrix.narrow(0, c.intermediate, c.intermediate)};
    if (!name.ends_with("linear_qkv.weight")) return {matrix};
    const std::int64_t queries = c.heads / c.kv_heads * c.head_dim;
    const at::Tensor groups = matrix.view({c.kv_heads, -1, matrix.size(1)});
    return {groups.narrow(1, 0, queries), groups.narrow(1, queries, c.head_dim),
            groups.narrow(1, queries + c.head_dim, c.head_dim)};
}

// Returns an approximation of U V^T, where U S V^T is the singular value decomposition.
at::Tensor newton_schulz(const at::Tensor& matrix, int steps) {
    at::Tensor x = matrix.is_cpu() ? matrix : matrix.to(at::kBFloat16);
    const bool is_tall = matrix.size(0) > matrix.size(1);
    if (is_tall) x = x.t();
    x = x / x.norm().clamp_min(kNormMin);
    for (int step = 0; step < steps; ++step) {
        const at::Tensor gram = x.mm(x.t());
        x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
    }
    return is_tall ? x.t() : x;
}

double scale_of(spec::UpdateScale scale, const at::Tensor& matrix) {
    const auto rows = static_cast<double>(matrix.size(0));
    const auto columns = static_cast<double>(matrix.size(1));
    return scale == spec::UpdateScale::Original ? std::sqrt(std::max(1.0, rows / columns))
                                                : 0.2 * std::sqrt(std::max(rows, columns));
}

}  // namespace

at::Tensor muon_direction(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const Parameters& p = update.parameters;
    at::Tensor grad = p.own_grad[update.index], buffer = update.state[0];
    if (grad.is_cpu() && update.grad_scale != 1) grad = grad * update.grad_scale;
    buffer.lerp_(grad, 1 - o.momentum);
    return o.nesterov ? grad.lerp(buffer, o.momentum) : buffer.clone();
}

void orthogonalize(const spec::ModelConfig& config, const spec::OptimizerSpec& options,
                   const std::string& name, const at::Tensor& matrix) {
    for (const at::Tensor& view : modules_of(config, name, matrix)) {
        const at::Tensor module = view.reshape({-1, matrix.size(1)});
        const at::Tensor moved =
            newton_schulz(module, options.ns_steps).mul(scale_of(options.update_scale, module));
        view.copy_(moved.reshape(view.sizes()));
    }
}

void muon_move(const Update& update, const at::Tensor& moved) {
    const Parameters& p = update.parameters;
    const double keep = 1 - update.lr * update.weight_decay;
    if (!p.flat_weight.is_cpu()) {
        at::Tensor weight = p.main[update.index];
        weight.mul_(keep).sub_(moved, update.lr);
        return;
    }
    for_slices(p, update.index, moved, {}, [&]<class W>(const Slice<W>& slice) {
        const auto kept = static_cast<W>(keep), lr = static_cast<W>(update.lr);
        for (std::int64_t i = 0; i < slice.size; ++i)
            slice.weight[i] = kept * slice.weight[i] - lr * slice.grad[i];
    });
}

}  // namespace roll::train
