#include "worker/train/job/bad_step.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

constexpr std::int64_t kSentenceMax = 1024;

// Returns, on all ranks, the text that rank `teller` passed.
std::string told_by(int teller, const std::string& text, Communicator& world) {
    const at::Tensor letters = at::zeros({kSentenceMax}, at::kDouble);
    for (std::size_t i = 0; world.rank() == teller && i < text.size() && i < kSentenceMax; ++i)
        letters[static_cast<std::int64_t>(i)] = static_cast<double>(text[i]);
    sum_over(world, letters);
    std::string told;
    const auto* letter = letters.const_data_ptr<double>();
    for (std::int64_t i = 0; i < kSentenceMax && letter[i] != 0; ++i)
        told += static_cast<char>(letter[i]);
    return told;
}

// Returns this rank's samples that are at fault: those of the micro-batches in `found`. If `found`
// names none, returns all samples of this rank's part.
std::vector<std::int64_t> own_samples(const std::optional<NotFinite>& found,
                                      const StepPlace& place) {
    const std::int64_t first = place.first();
    const std::int64_t rows = place.spec.micro_batch_size;
    std::vector<std::int64_t> samples;
    if (!found || found->microbatches.empty()) {
        samples.resize(static_cast<std::size_t>(place.spec.microbatches() * rows));
        std::iota(samples.begin(), samples.end(), first);
        return samples;
    }
    for (const int microbatch : found->microbatches)
        for (std::int64_t row = 0; row < rows; ++row)
            samples.push_back(first + microbatch * rows + row);
    return samples;
}

std::vector<std::int64_t> everyones(const std::vector<std::int64_t>& own, const StepPlace& place,
                                    Communicator& world) {
    const std::int64_t first = place.samples;
    const at::Tensor at_fault_S = at::zeros({place.spec.global_batch_size}, at::kDouble);
    for (const std::int64_t sample : own) at_fault_S[sample - first] = 1;
    sum_over(world, at_fault_S);
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < at_fault_S.numel(); ++i)
        if (at_fault_S[i].item<double>() > 0) samples.push_back(first + i);
    return samples;
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

std::string ranges_text(std::span<const std::int64_t> ascending) {
    std::string text;
    for (std::size_t i = 0; i < ascending.size(); ++i) {
        const std::size_t begin = i;
        while (i + 1 < ascending.size() && ascending[i + 1] == ascending[i] + 1) ++i;
        text += (text.empty() ? "" : " and ") + std::to_string(ascending[begin]);
        if (i > begin) text += " to " + std::to_string(ascending[i]);
    }
    return text;
}

BadStep find_bad_step(Chunk& model, std::span<const Microbatch> batch, const StepResult& result,
                      const StepPlace& place, Communicator& world) {
    const auto found = find_not_finite(model, batch);
    const at::Tensor found_R = at::zeros({world.size()}, at::kDouble);
    if (found) found_R[world.rank()] = 1;
    sum_over(world, found_R);
    const bool somebodys = found_R.sum().item<double>() > 0;
    BadStep bad;
    bad.rank = static_cast<int>(found_R.argmax().item<std::int64_t>());
    std::vector<std::int64_t> own;
    if (found || !somebodys) own = own_samples(found, place);
    bad.samples = everyones(own, place, world);
    const std::string first =
        found ? found->what : "the sum over micro-batches and ranks (each part is finite)";
    bad.sentence =
        told_by(bad.rank,
                std::string("the ") + (std::isfinite(result.loss) ? "gradient norm" : "loss") +
                    " is not finite at step " + std::to_string(place.step + 1) + " on rank " +
                    std::to_string(bad.rank) + " (samples " + ranges_text(own) +
                    "); first non-finite value: " + first,
                world);
    return bad;
}

}  // namespace roll::train
