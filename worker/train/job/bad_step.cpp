#include "worker/train/job/bad_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <ATen/ATen.h>

#include "worker/train/model/packed_base.hpp"

namespace roll::train {
namespace {

bool finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

// Returns the name of the first weight, in the order of forward, that is not finite; "" if there is
// none.
std::string first_weight(const Parameters& parameters) {
    for (std::size_t i = 0; i < parameters.weight.size(); ++i)
        if (!finite(weight_of(parameters, i))) return parameters.specs[i].name;
    return "";
}

// Returns the name of the first parameter whose gradient is not finite, in the order of backward
// (from the last parameter to the first); "" if there is none.
std::string first_gradient(const Parameters& parameters) {
    for (std::size_t i = parameters.grad.size(); i-- > 0;)
        if (!finite(parameters.grad[i])) return parameters.specs[i].name;
    return "";
}

// A non-finite value in one replica of the model.
struct Bad {
    // true: at least one rank of the replica has a non-finite value; the same on all ranks of the
    // replica
    bool any = false;
    std::string name;  // name of the parameter; empty if this rank does not hold the parameter
};

// Finds the first chunk of the model, in the order of forward, that has a non-finite value, or the
// last such chunk if `from_the_back` is true. name_of(parameters) returns the name of a chunk's
// first bad parameter, or "" if the chunk has none. If `others` is not null, a chunk also counts as
// bad if it has a non-finite value on another rank of this group. This is needed if each of these
// ranks stores only a part of the parameters, or computes only a part of the values.
Bad bad_value(TrainStep& step, bool from_the_back, Communicator* others,
              const std::function<std::string(const Parameters&)>& name_of) {
    Communicator& pp = step.groups().pp;
    std::vector<std::string> names;
    const at::Tensor bad_S = at::zeros({pp.size() * std::ssize(step.chunks())}, at::kDouble);
    for (Chunk& chunk : step.chunks()) {
        const int stage = step.schedule().stage(pp.rank(), static_cast<int>(std::ssize(names)));
        names.push_back(name_of(chunk.parameters()));
        if (!names.back().empty()) bad_S[stage] = 1;
    }
    sum_over(pp, bad_S, {Site::NotFinite});
    if (step.groups().tp != nullptr) sum_over(*step.groups().tp, bad_S, {Site::NotFinite});
    if (others != nullptr) sum_over(*others, bad_S, {Site::NotFinite});
    bad_S.clamp_max_(1);
    if (bad_S.sum().item<double>() == 0) return {};
    const std::int64_t last = bad_S.numel() - 1;
    const auto stage = from_the_back ? last - bad_S.flip(0).argmax().item<std::int64_t>()
                                     : bad_S.argmax().item<std::int64_t>();
    const plan::Home home = step.schedule().home(static_cast<int>(stage));
    const bool here = home.rank == pp.rank();
    return {true, here ? names[static_cast<std::size_t>(home.chunk)] : ""};
}

constexpr std::int64_t kSentenceMax = 1024;

// Broadcasts `text` from rank `teller` and returns it on all ranks. The `text` of the other ranks
// is ignored.
std::string told_by(int teller, const std::string& text, Communicator& world) {
    const at::Tensor letters = at::zeros({kSentenceMax}, at::kDouble);
    for (std::size_t i = 0; world.rank() == teller && i < text.size() && i < kSentenceMax; ++i)
        letters[static_cast<std::int64_t>(i)] = static_cast<double>(text[i]);
    broadcast_from(teller, world, letters, {Site::NotFinite});
    std::string told;
    const auto* letter = letters.const_data_ptr<double>();
    for (std::int64_t i = 0; i < kSentenceMax && letter[i] != 0; ++i)
        told += static_cast<char>(letter[i]);
    return told;
}

// Returns the samples at fault in `batch`, this rank's part of the global batch: the samples of the
// micro-batches that `found` lists. If `found` lists no micro-batches, returns all samples of
// `batch`.
std::vector<std::int64_t> own_samples(const std::optional<NotFinite>& found,
                                      std::span<const Microbatch> batch) {
    std::vector<std::int64_t> samples;
    for (std::size_t m = 0; m < batch.size(); ++m)
        if (!found || found->microbatches.empty() ||
            std::ranges::find(found->microbatches, static_cast<int>(m)) !=
                found->microbatches.end())
            samples.insert(samples.end(), batch[m].samples.begin(), batch[m].samples.end());
    std::ranges::sort(samples);
    return samples;
}

std::vector<std::int64_t> everyones(const std::vector<std::int64_t>& own, const StepPlace& place,
                                    Communicator& world) {
    const std::int64_t first = place.samples;
    const at::Tensor at_fault_S = at::zeros({place.spec.global_batch_size}, at::kDouble);
    for (const std::int64_t sample : own) at_fault_S[sample - first] = 1;
    sum_over(world, at_fault_S, {Site::NotFinite});
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < at_fault_S.numel(); ++i)
        if (at_fault_S[i].item<double>() > 0) samples.push_back(first + i);
    return samples;
}

}  // namespace

std::optional<NotFinite> find_not_finite(TrainStep& step, std::span<const Microbatch> batch) {
    const c10::InferenceMode no_autograd;
    // Ranks that replay together must come to the same result: all replicas if each stores only a
    // part of the weights, or else the ranks of a cp group.
    Communicator* const together = step.shares_weights() ? &step.groups().dp : step.groups().cp;
    const Bad weight = bad_value(step, false, together, first_weight);
    if (weight.any) return NotFinite{weight.name.empty() ? "" : "the weight " + weight.name, {}};
    const bool last_stage = step.chunks().back().part().post;
    NotFinite found;
    for (std::size_t m = 0; m < batch.size(); ++m) {
        const double loss = step.replay(batch[m]);
        const Bad gradient = bad_value(step, true, nullptr, first_gradient);
        if (std::isfinite(loss) && !gradient.any) continue;
        found.microbatches.push_back(static_cast<int>(m));
        if (found.microbatches.size() > 1) continue;
        const std::string before = std::isfinite(loss) ? "" : "the loss";
        if (!gradient.name.empty())
            found.what =
                before + (before.empty() ? "" : ", then ") + "the gradient of " + gradient.name;
        else if (!gradient.any && last_stage)
            found.what = before;
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

std::string rounded_text(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    return text;
}

BadStep find_bad_step(TrainStep& step, std::span<const Microbatch> batch, const StepResult& result,
                      const StepPlace& place, Communicator& world) {
    const auto found = find_not_finite(step, batch);
    const at::Tensor found_R = at::zeros({world.size()}, at::kDouble);
    if (found && !found->what.empty()) found_R[world.rank()] = 1;
    sum_over(world, found_R, {Site::NotFinite});
    const bool somebodys = found_R.sum().item<double>() > 0;
    BadStep bad;
    bad.rank = static_cast<int>(found_R.argmax().item<std::int64_t>());
    std::vector<std::int64_t> own;
    if (found || !somebodys) own = own_samples(found, batch);
    bad.samples = everyones(own, place, world);
    const std::string first =
        found ? found->what
              : "the sum over micro-batches and ranks, although each summand is finite";
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
