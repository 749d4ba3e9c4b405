#include "tests/worker/train/device/trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace roll::ops {
namespace {

// Returns max|found - exact| / max|exact|; infinity if the sizes differ or an element is NaN.
double error_of(const at::Tensor& found, const at::Tensor& exact) {
    constexpr double kWrong = std::numeric_limits<double>::infinity();
    if (found.sizes() != exact.sizes()) return kWrong;
    if (found.numel() == 0) return 0;
    const at::Tensor wide = found.cpu().to(at::kDouble);
    const auto scale = exact.abs().max().item<double>();
    const auto worst = (wide - exact).abs().max().item<double>();
    if (!std::isfinite(worst)) return kWrong;
    return worst / (scale > 0 ? scale : 1);
}

}  // namespace

at::Tensor Trial::random(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::kDouble).to(type_).to(at::kDouble);
}

at::Tensor Trial::there(const at::Tensor& x, at::ScalarType type) const {
    return x.to(at::TensorOptions(device_).dtype(type));
}

at::Tensor Trial::part(const at::Tensor& x, at::ScalarType type) const {
    const at::Tensor memory = at::zeros({x.numel() + 8}, at::TensorOptions(device_).dtype(type));
    const at::Tensor view = memory.narrow(0, 3, x.numel()).view(x.sizes());
    view.copy_(x);
    return view;
}

void Trial::compare(const std::string& what, const at::Tensor& found, const at::Tensor& exact,
                    double float_limit, double narrow_limit) {
    const double error = error_of(found, exact);
    const auto known = std::ranges::find(figures_, what, &Figure::what);
    if (known != figures_.end()) {
        known->error = std::max(known->error, error);
        return;
    }
    figures_.push_back({what, error, type_ == at::kBFloat16 ? narrow_limit : float_limit});
}

}  // namespace roll::ops
