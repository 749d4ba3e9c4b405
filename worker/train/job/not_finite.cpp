#include "worker/train/job/not_finite.hpp"

#include <cmath>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

bool finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

// Runs forward and backward of one micro-batch. Leaves its gradient in parameters().grad and
// returns its mean loss.
double run_alone(Chunk& model, const Microbatch& data) {
    const GradReady nobody = [](int) {};
    const double count = data.targets_BT.ne(ops::kIgnored).sum().item<double>();
    model.begin_step();
    const at::Tensor loss = model.forward(0, data, {}, 1 / std::max(count, 1.0), nobody);
    model.backward_input(0, {}, WeightHalves::Now, nobody);
    model.backward_weight(0, nobody);
    return loss.item<double>();
}

// Returns the name of the first parameter whose gradient is not finite, in the order of backward:
// from the last parameter to the first.
std::string first_gradient(const Parameters& parameters) {
    for (std::size_t i = parameters.grad.size(); i-- > 0;)
        if (!finite(parameters.grad[i])) return parameters.specs[i].name;
    return "";
}

}  // namespace

std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch) {
    const c10::InferenceMode no_autograd;
    const Parameters& parameters = model.parameters();
    for (std::size_t i = 0; i < parameters.weight.size(); ++i)
        if (!finite(parameters.weight[i]))
            return NotFinite{"the weight " + parameters.specs[i].name, {}};
    NotFinite found;
    for (std::size_t m = 0; m < batch.size(); ++m) {
        const double loss = run_alone(model, batch[m]);
        const std::string name = first_gradient(parameters);
        if (std::isfinite(loss) && name.empty()) continue;
        found.microbatches.push_back(static_cast<int>(m));
        if (!found.what.empty()) continue;
        found.what = std::isfinite(loss) ? "" : "the loss";
        if (!name.empty())
            found.what += (found.what.empty() ? "" : ", then ") + ("the gradient of " + name);
    }
    return found.microbatches.empty() ? std::nullopt : std::optional(found);
}

}  // namespace roll::train
