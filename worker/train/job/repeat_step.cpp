#include "worker/train/job/repeat_step.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "worker/train/job/bad_step.hpp"
#include "worker/train/job/replicas.hpp"
#include "worker/train/pipeline/tensor_hash.hpp"

namespace roll::train {
namespace {

constexpr double kGpuTolerance = 0.01;
constexpr int kDigits = 9;

bool is_equal(double a, double b, double tolerance) {
    if (!std::isfinite(a) || !std::isfinite(b))
        return a == b || (std::isnan(a) && std::isnan(b)) ||
               (tolerance > 0 && !std::isfinite(a) && !std::isfinite(b));
    return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

// Returns the hashes of the gradients whose sums this rank has.
std::vector<std::int64_t> gradient_hashes(TrainStep& step) {
    std::vector<std::int64_t> hashes;
    for (Chunk& chunk : step.chunks()) {
        const Parameters& p = chunk.parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (!p.specs[i].frozen) hashes.push_back(hash_of(p.own_grad[i].cpu().contiguous()));
    }
    return hashes;
}

// Returns the ranks whose entry is not 0. If this is true of all ranks, returns no rank, because
// the entries then do not show which rank is at fault.
std::vector<int> some_ranks(const at::Tensor& found_R) {
    std::vector<int> ranks;
    for (std::int64_t rank = 0; rank < found_R.numel(); ++rank)
        if (found_R[rank].item<double>() > 0) ranks.push_back(static_cast<int>(rank));
    if (std::ssize(ranks) == found_R.numel()) ranks.clear();
    return ranks;
}

}  // namespace

std::optional<RepeatDiffers> repeat_differs(TrainStep& step, std::span<const Microbatch> batch,
                                            const StepResult& result, const StepPlace& place,
                                            Communicator& world) {
    const bool is_cpu = step.chunks().front().parameters().flat_weight.is_cpu();
    const double tolerance = is_cpu ? 0 : kGpuTolerance;
    const std::vector<std::int64_t> sent = step.sent_gradients(), summed = gradient_hashes(step);
    const StepResult again = step.repeat(batch, result.loss_scale);
    const bool differs = !is_equal(result.loss, again.loss, tolerance) ||
                         !is_equal(result.grad_norm, again.grad_norm, tolerance);
    const bool own_differs = !is_equal(result.own_loss, again.own_loss, tolerance);
    // one row for each rank: [result differs, replica's loss differs, gradient before the sum over
    // the replicas differs, sum differs]; 1: true
    const at::Tensor found_R4 = at::zeros({world.size(), 4}, at::kDouble);
    const at::Tensor mine = found_R4[world.rank()];
    if (differs) mine[0] = 1;
    if (own_differs) mine[1] = 1;
    if (step.sent_gradients() != sent) mine[2] = 1;
    if (is_cpu && gradient_hashes(step) != summed) mine[3] = 1;
    sum_over(world, found_R4, {Site::Agreement});
    if (found_R4.select(1, 0).sum().item<double>() == 0) return std::nullopt;
    // A wrong loss makes the gradients wrong, including those of other ranks. A wrong gradient
    // makes the sums of all replicas wrong. Therefore, report the ranks with wrong losses or, if
    // there are none, the ranks with wrong gradients or wrong sums.
    const std::vector<int> losses = some_ranks(found_R4.select(1, 1));
    std::vector<int> ranks = losses;
    for (const std::int64_t column : {2, 3})
        if (ranks.empty()) ranks = some_ranks(found_R4.select(1, column));
    std::string where;
    if (!ranks.empty())
        where = std::string("; only the ") + (losses.empty() ? "gradients" : "losses") + " of " +
                ranks_text(ranks) + " differ";
    const auto both = [](double first, double second) {
        return rounded_text(first, kDigits) + ", then " + rounded_text(second, kDigits);
    };
    return RepeatDiffers{ranks.empty() ? 0 : ranks.front(),
                         "computing step " + std::to_string(place.step + 1) +
                             " twice from the same weights and samples gave two results: loss " +
                             both(result.loss, again.loss) + "; gradient norm " +
                             both(result.grad_norm, again.grad_norm) + where +
                             "; memory or a processor may be damaged"};
}

}  // namespace roll::train
