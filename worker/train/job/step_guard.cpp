#include "worker/train/job/step_guard.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <ATen/ATen.h>

#include "common/counted.hpp"
#include "worker/train/job/outlier.hpp"
#include "worker/train/job/repeat_step.hpp"
#include "worker/train/save/left_out.hpp"
#include "worker/train/save/poisoned.hpp"

namespace roll::train {
namespace {

// maximum number of consecutive steps that are skipped; the next bad step ends the job, because so
// many bad steps in a row are not outliers
constexpr int kSkippedMax = 10;

void append(std::vector<double>& values, double value, int window) {
    values.push_back(value);
    const auto surplus = std::ssize(values) - window;
    if (surplus > 0) values.erase(values.begin(), values.begin() + surplus);
}

// Returns the failure with which this rank ends. Rank `teller` reports the reason, `sentence`. The
// other ranks exit with the status for a lost peer, so that `sentence` becomes the attempt's
// reason.
RankFailure failure_of(int status, int teller, const std::string& sentence,
                       const std::string& of_others, const Communicator& world) {
    if (world.rank() == teller) return {status, sentence};
    return {protocol::kExitPeerLost, "rank " + std::to_string(teller) + " found " + of_others};
}

}  // namespace

std::string untrained_text(const checkpoint::State& state) {
    std::string text;
    if (state.skipped_steps > 0)
        text = std::to_string(state.skipped_steps) + " of " + std::to_string(state.step) +
               " steps were skipped because of a spike or a value that is not finite";
    if (!state.left_out.empty())
        text += (text.empty() ? "" : "; ") + std::to_string(state.left_out.size()) +
                (state.left_out.size() == 1 ? " sample was left out after"
                                            : " samples were left out after") +
                " a return to an earlier checkpoint (" + ranges_text(state.left_out) + ")";
    return text.empty() ? text : text + "\n";
}

StepLimits StepGuard::limits() {
    const spec::BadStepSpec& rules = spec_.bad_steps;
    if (rules.on_spike == spec::OnBadStep::Ignore) {
        state_.recent.reset();
        return {};
    }
    if (!state_.recent || spec_.global_batch_size < state_.recent->batch_size)
        state_.recent.emplace();
    state_.recent->batch_size = spec_.global_batch_size;
    StepLimits limits;
    if (const auto loss = outlier_limit(state_.recent->losses, rules.deviations))
        limits.loss = loss->limit;
    if (const auto norm = outlier_limit(state_.recent->grad_norms, rules.deviations))
        limits.grad_norm = norm->limit;
    return limits;
}

int& StepGuard::skipped_in_a_row() { return state_.recent ? state_.recent->skipped : skipped_; }

void StepGuard::accept(const StepResult& result) {
    skipped_in_a_row() = 0;
    if (!state_.recent) return;
    append(state_.recent->losses, result.loss, spec_.bad_steps.window);
    append(state_.recent->grad_norms, result.grad_norm, spec_.bad_steps.window);
}

// Describes a spike. All samples of the step count as at fault.
BadStep StepGuard::spike(const StepResult& result, const StepPlace& place) const {
    const bool is_loss = result.too_high == TooHigh::Loss;
    const std::vector<double>& values = is_loss ? state_.recent->losses : state_.recent->grad_norms;
    const OutlierLimit limit = *outlier_limit(values, spec_.bad_steps.deviations);
    BadStep bad;
    for (std::int64_t i = 0; i < spec_.global_batch_size; ++i)
        if (!std::ranges::binary_search(state_.left_out, place.samples + i))
            bad.samples.push_back(place.samples + i);
    bad.sentence = std::string("the ") + (is_loss ? "loss" : "gradient norm") + " of step " +
                   std::to_string(place.step + 1) +
                   " is a spike: " + rounded_text(is_loss ? result.loss : result.grad_norm) +
                   " is above the limit " + rounded_text(limit.limit) +
                   "; the median of the last " + counted(values.size(), "applied step") + " is " +
                   rounded_text(limit.median) + " (samples " + ranges_text(bad.samples) + ")";
    return bad;
}

std::optional<RankFailure> StepGuard::check(TrainStep& step, std::span<const Microbatch> batch,
                                            const StepResult& result, const StepPlace& place,
                                            Communicator& world) {
    if (result.updated) accept(result);
    if (result.updated || result.tokens == 0) return std::nullopt;
    const bool is_spike = result.too_high != TooHigh::None;
    const bool overflowed = state_.loss_scale && std::isfinite(result.loss) && !is_spike;
    // an overflow is no failure: the job can lower the loss scale
    if (overflowed && result.replicas_agree) return std::nullopt;
    if (const auto fault = repeat_differs(step, batch, result, place, world))
        return failure_of(1, fault->rank, fault->sentence,
                          "that computing a step twice gave two results", world);
    if (!result.replicas_agree)
        return failure_of(1, 0,
                          "twice, the replicas computed different gradient norms of step " +
                              std::to_string(place.step + 1) +
                              " from the same gradients; memory or a processor of one of the "
                              "replicas may be damaged",
                          "gradient norms that differ between replicas", world);
    const BadStep bad =
        is_spike ? spike(result, place) : find_bad_step(step, batch, result, place, world);
    using Policy = spec::OnBadStep;
    const Policy policy = is_spike ? spec_.bad_steps.on_spike : spec_.bad_steps.on_not_finite;
    std::string ending;
    if (policy == Policy::Skip) {
        if (++skipped_in_a_row() <= kSkippedMax) {
            ++state_.skipped_steps;
            if (world.rank() == 0) std::printf("%s; the step is skipped\n", bad.sentence.c_str());
            return std::nullopt;
        }
        ending = "; the " + std::to_string(kSkippedMax) +
                 " steps before it were skipped, and no more may be skipped in a row";
    }
    if (policy == Policy::Rewind) ending = prepare_rewind(bad.samples, world);
    const bool again = policy == Policy::Retry || policy == Policy::Rewind;
    return failure_of(again ? 1 : protocol::kExitDiverged, bad.rank, bad.sentence + ending,
                      is_spike ? "a spike" : "a value that is not finite", world);
}

// Prepares the return to an earlier checkpoint, and decides which samples training will leave out.
// Returns the end of the error message, which lists these samples. If the loss was not rising,
// training leaves out the samples in `bad`. If the loss was rising up to this step, the update of
// the step before the rise caused the first high loss. All checkpoints from that step on are then
// poisoned, and training leaves out all samples from that step on.
std::string StepGuard::prepare_rewind(std::span<const std::int64_t> bad, Communicator& world) {
    const bool writes = world.rank() == 0;
    const at::Tensor begin = at::zeros({}, at::kDouble);
    if (writes) begin.fill_(static_cast<double>(history_.rise().value_or(0)));
    broadcast_from(0, world, begin, {Site::Agreement});
    const auto rise = static_cast<std::int64_t>(begin.item<double>());
    std::vector<std::int64_t> samples(bad.begin(), bad.end());
    if (rise > 0) {
        const std::int64_t back =
            spec::samples_before(spec_.batch_sizes(), state_.step) -
            spec::samples_before(spec_.batch_sizes(), std::max<std::int64_t>(rise - 2, 0));
        samples.clear();
        for (std::int64_t sample = std::max<std::int64_t>(state_.samples - back, 0);
             sample < state_.samples + spec_.global_batch_size; ++sample)
            samples.push_back(sample);
        if (writes)
            add_poisoned(launch_.output,
                         {std::max<std::int64_t>(rise - 1, 1), launch_.attempt.token});
    }
    join(state_.left_out, samples);
    if (writes) write_left_out(launch_.output, state_);
    barrier(world);
    const std::string ending = "; samples " + ranges_text(samples) + " are left out from now on";
    if (rise == 0) return ending;
    return "; the loss rose from step " + std::to_string(rise) +
           " on, so the job goes back to a "
           "checkpoint before step " +
           std::to_string(std::max<std::int64_t>(rise - 1, 1)) + ending;
}

}  // namespace roll::train
