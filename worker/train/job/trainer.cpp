#include "worker/train/job/trainer.hpp"

#include <cmath>
#include <cstdio>
#include <thread>

#include <ATen/ATen.h>

#include "worker/plan/lr_schedule.hpp"
#include "worker/train/model/generate_text.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/report/peak.hpp"
#include "worker/train/report/step_report.hpp"
#include "worker/train/save/first_error.hpp"
#include "worker/train/save/left_out.hpp"
#include "worker/train/save/poisoned.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using namespace std::chrono_literals;

constexpr auto kProgressEvery = 200ms;
constexpr auto kStepsToldEvery = 1s;
constexpr auto kRecordPatience = 3s;  // longest wait until rolld records the last checkpoint
constexpr auto kSpaceLookedForEvery = 500ms;
// maximum number of steps skipped in a row; if there are more, they are not outliers
constexpr int kSkippedMax = 10;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// Combines the requests (stop, checkpoint, ...) that each rank has received. All ranks get the same
// result, so that they act on it at the same step.
Trainer::Agreed Trainer::agree() {
    const Heard heard = link_.poll();
    if (saver_) {
        for (const std::int64_t step : heard.recorded) saver_->recorded(step);
        saver_->poll();
    }
    if (saver_) saver_->ask(heard.save);
    const at::Tensor votes = at::zeros({6}, at::kDouble);
    if (heard.stop) votes[0] = 1;
    if (heard.stop && !heard.checkpoint) votes[1] = 1;
    // Only the rank that writes votes, because ranks receive the request at different steps. A
    // checkpoint that is already saved for this step was started before the request and does not
    // answer it; the vote then follows at the next step.
    const bool asked = saver_ && saver_->is_asked() && saver_->last_step() != state_.step;
    if (asked || (saver_ && saver_->is_due_again())) votes[2] = 1;
    if (std::exchange(peak_beaten_, false)) votes[3] = 1;
    const bool part_done = part_->is_running() && part_->is_done();
    if (part_done) votes[4] = 1;
    if (part_done && part_->has_failed()) votes[5] = 1;
    sum_over(*world_, votes, {Site::Agreement});
    if (votes[4].item<double>() == world_->size()) conclude_parts(votes[5].item<double>() > 0);
    const auto voted = [&](int vote) { return votes[vote].item<double>() > 0; };
    return {voted(0), !voted(1), voted(2), voted(3)};
}

bool Trainer::due(std::int64_t every) const {
    return every > 0 && (state_.step % every == 0) && state_.step < spec_.steps;
}

bool Trainer::stops_early() const {
    return spec_.early_stop.patience > 0 && state_.stale_validations >= spec_.early_stop.patience;
}

BatchRules Trainer::batch_rules() const {
    return {model_.config.vocab, state_.left_out, references_ ? &*references_ : nullptr};
}

int Trainer::run() {
    try {
        return run_steps();
    } catch (const OutOfMemory& failure) {
        throw OutOfMemory(failure.bytes(), doing());
    } catch (const std::bad_alloc&) {
        throw OutOfMemory(0, doing());
    }
}

// Returns what this rank is doing, for a message.
std::string Trainer::doing() const {
    if (phase_ != Phase::Step) return phase_ == Phase::Validation ? "validation" : "the checkpoint";
    return "step " + std::to_string(state_.step + 1) + ", " + step_->doing();
}

int Trainer::run_steps() {
    if (stopped_) return protocol::kExitYielded;
    if (spec_.valid_at_start && state_.step == 0) measure({.last = true});
    while (state_.step < spec_.steps && !stops_early()) {
        const Agreed agreed = agree();
        if (agreed.stop) {
            if (agreed.checkpoint) save(Save::UnlessSaved);
            finish_part();
            if (saver_) saver_->finish();
            if (writes())
                std::printf("stopped at step %lld\n", static_cast<long long>(state_.step));
            return protocol::kExitYielded;
        }
        if (agreed.save) save();
        if (agreed.measure) find_peak();
        train_step();
        const bool whole = state_.step == spec_.steps;
        if (peak_flops_ == 0 && !whole) find_peak();
        const bool best = validate(moment());
        const bool last = whole || stops_early();
        if (due(spec_.sample.every) || last) sample();
        const bool proves = spec_.checkpoint_first_step && state_.step == 1;
        if (due(spec_.checkpoint_every) || last || (best && spec_.checkpoint_keep_best) || proves)
            save();
    }
    if (stops_early() && writes())
        std::printf(
            "stopped early at step %lld: none of the last %lld validations improved on the best "
            "earlier loss by more than %g; the best loss was at step %lld\n",
            static_cast<long long>(state_.step), static_cast<long long>(state_.stale_validations),
            spec_.early_stop.min_delta, static_cast<long long>(state_.best_step));
    // Save again when resuming: a checkpoint of the last step may belong to another job, or may not
    // be recorded for this job.
    if (launch_.kind == "resume") save(Save::UnlessSaved);
    if (!await_space()) return protocol::kExitYielded;
    if (saver_) {
        saver_->need_saved();
        await_recorded();
    }
    measure_export();
    barrier(*world_);
    return 0;
}

// Waits while the run's final checkpoint is put off because the disk is full. Without this
// checkpoint, the steps since the previous one would be lost. All ranks wait together, so that none
// blocks in a collective and each can be stopped. Returns false if a rank was told to stop.
bool Trainer::await_space() {
    const auto deadline = Clock::now() + spec_.checkpoint_wait_for_space;
    for (;;) {
        finish_part();
        if (saver_) saver_->finish();
        const at::Tensor waits = at::zeros({}, at::kDouble);
        if (saver_ && saver_->is_put_off() && Clock::now() < deadline) waits.fill_(1);
        sum_over(*world_, waits, {Site::Agreement});
        if (waits.item<double>() == 0) return true;
        const Agreed agreed = agree();
        if (agreed.stop) {
            if (writes())
                std::printf(
                    "stopped at step %lld while waiting for disk space for its checkpoint\n",
                    static_cast<long long>(state_.step));
            return false;
        }
        if (agreed.save) {
            save();
            continue;
        }
        if (writes())
            link_.report(protocol::Progress{
                Json{{"phase", "wait for disk space"}, {"step", state_.step}}.dump()});
        std::this_thread::sleep_for(kSpaceLookedForEvery);
    }
}

void Trainer::train_step() {
    const auto start = Clock::now();
    const double waited = waited_;
    const std::vector<Microbatch> batch = step_batches(sampler_, place(), batch_rules());
    const double data_wait = seconds_since(start);
    const double lr = plan::learning_rate(spec_.optimizer, spec_.steps, state_.step);
    const double decay = plan::weight_decay(spec_.optimizer, spec_.steps, state_.step);
    for (Optimizer& optimizer : step_->optimizers()) optimizer.set_weight_decay(decay);
    phase_ = Phase::Step;
    const StepResult result = step_->run(batch, lr);
    if (result.updated)
        skipped_in_a_row_ = 0;
    else if (result.tokens > 0)
        not_finite(result, batch);
    ++state_.step;
    state_.samples += spec_.global_batch_size;
    tokens_before_ = std::exchange(state_.tokens, state_.tokens + result.tokens);
    if (result.updated) state_.loss = result.loss;
    state_.clipped_steps += result.clip_factor < 1;
    tell_step(seconds_since(start) - (waited_ - waited));
    after_step(result, flops_of(batch), seconds_since(start), data_wait);
}

// Returns the FLOPs per token of this step. If documents are kept apart, they differ between steps
// and ranks; then returns the mean over all ranks, which all have the same number of tokens.
plan::FlopsPerToken Trainer::flops_of(std::span<const Microbatch> batch) {
    if (!spec_.data.documents_apart)
        return plan::flops_per_token(model_.config, spec_.seq_length, frozen_factors_);
    const plan::FlopsPerToken mine =
        plan::flops_per_token(model_.config, piece_lengths(batch), frozen_factors_);
    const at::Tensor sums = at::tensor({mine.causal, mine.full}, at::kDouble) / world_->size();
    sum_over(*world_, sums, {Site::Agreement});
    return {sums[0].item<double>(), sums[1].item<double>()};
}

// Reports the step to roll-worker. Every rank reports, so that a slow or hanging rank can be told
// from the ranks that wait for it.
void Trainer::tell_step(double own_seconds) {
    own_seconds_ = own_seconds_ == 0 ? own_seconds : 0.9 * own_seconds_ + 0.1 * own_seconds;
    const auto now = Clock::now();
    if (now - told_ < kStepsToldEvery && state_.step != spec_.steps) return;
    told_ = now;
    link_.report(protocol::StepDone{state_.step, spec_.steps, std::llround(1e3 * own_seconds_)});
}

// Measures the peak FLOP/s. Runs after the first step, so that it does not delay that step. Runs on
// all ranks at once, because the ranks share the machine while training, too.
void Trainer::find_peak() {
    const bool told = spec_.peak_tflops > 0;
    const double mine =
        told ? spec_.peak_tflops * 1e12
             : measure_peak_flops(step_->chunks().front().parameters().flat_weight.options());
    const at::Tensor all = at::full({}, mine, at::kDouble);
    sum_over(*world_, all, {Site::Agreement});
    peak_flops_ = std::max(peak_flops_, all.item<double>());
}

void Trainer::after_step(const StepResult& result, const plan::FlopsPerToken& flops, double seconds,
                         double data_wait_seconds) {
    if (!writes()) return;
    step_seconds_ = step_seconds_ == 0 ? seconds : 0.9 * step_seconds_ + 0.1 * seconds;
    StepReport report{.step = state_.step,
                      .steps = spec_.steps,
                      .result = result,
                      .ranks = world_->size(),
                      .lr = plan::learning_rate(spec_.optimizer, spec_.steps, state_.step - 1),
                      .clipped_share = static_cast<double>(state_.clipped_steps) /
                                       static_cast<double>(state_.step),
                      .tokens = state_.tokens,
                      .seconds = seconds,
                      .data_wait_seconds = data_wait_seconds,
                      .flops = flops,
                      .peak_flops = peak_flops_,
                      .memory = process_memory()};
    // A whole step cannot be faster than its matrix products. If it seems to be, the peak was
    // measured while the machine was busy.
    const double rate = report.tokens_per_second() * flops.causal;
    if (spec_.peak_tflops == 0 && peak_flops_ > 0 && rate > peak_flops_) {
        peak_beaten_ = true;
        peak_flops_ = report.peak_flops = rate;
    }
    if (backend_.memory) report.gpu = backend_.memory();
    report.eta_seconds = step_seconds_ * static_cast<double>(spec_.steps - state_.step);
    metrics_->append(row_of(report));
    if (result.updated) history_.add(state_.step, result.loss);
    const auto now = Clock::now();
    const bool last = state_.step == spec_.steps;
    if (now < progress_due_ && !last && result.updated) return;
    progress_due_ = now + kProgressEvery;
    const Json progress = {{"step", state_.step},
                           {"steps", spec_.steps},
                           {"loss", result.loss},
                           {"tokens_per_second", report.tokens_per_second()},
                           {"eta_s", report.eta_seconds},
                           {"tokens", state_.tokens},
                           {"phase", "train"}};
    link_.report(protocol::Progress{progress.dump()});
    std::printf("%s\n", line_of(report).c_str());
    std::fflush(stdout);
}

// Handles a non-finite step, after which the weights are unchanged and the last checkpoint is good.
// If the run ends, the rank at fault reports the reason. The other ranks exit with the status for a
// lost peer, so that the message of the rank at fault becomes the attempt's reason.
void Trainer::not_finite(const StepResult& result, std::span<const Microbatch> batch) {
    const BadStep bad = find_bad_step(*step_, batch, result, place(), *world_);
    using Policy = spec::OnNotFinite;
    if (spec_.on_not_finite == Policy::Skip && ++skipped_in_a_row_ <= kSkippedMax) {
        if (writes()) std::printf("%s; the step is skipped\n", bad.sentence.c_str());
        return;
    }
    finish_part();
    if (saver_) saver_->finish();
    std::string ending;
    if (spec_.on_not_finite == Policy::Rewind) ending = prepare_rewind(bad);
    if (bad.rank != rank_)
        throw RankFailure(protocol::kExitPeerLost,
                          "rank " + std::to_string(bad.rank) + " found a value that is not finite");
    const bool again =
        spec_.on_not_finite == Policy::Retry || spec_.on_not_finite == Policy::Rewind;
    throw RankFailure(again ? 1 : protocol::kExitDiverged, bad.sentence + ending);
}

// Prepares going back to an earlier checkpoint. Returns the last part of the error message, which
// lists the samples that are left out. If the loss was rising up to this step, all checkpoints
// since the rise began are poisoned. Leaves out the samples of those steps and of the step before,
// whose update caused the first high loss.
std::string Trainer::prepare_rewind(const BadStep& bad) {
    const at::Tensor begin = at::zeros({}, at::kDouble);
    if (writes()) begin.fill_(static_cast<double>(history_.rise().value_or(0)));
    broadcast_from(0, *world_, begin, {Site::Agreement});
    const auto rise = static_cast<std::int64_t>(begin.item<double>());
    std::vector<std::int64_t> samples = bad.samples;
    if (rise > 0) {
        const std::int64_t steps = state_.step - std::max<std::int64_t>(rise - 2, 0);
        const std::int64_t end = state_.samples + spec_.global_batch_size;
        samples.clear();
        for (std::int64_t sample =
                 std::max<std::int64_t>(state_.samples - steps * spec_.global_batch_size, 0);
             sample < end; ++sample)
            samples.push_back(sample);
        if (writes())
            add_poisoned(launch_.output,
                         {std::max<std::int64_t>(rise - 1, 1), launch_.attempt.token});
    }
    join(state_.left_out, samples);
    if (writes()) write_left_out(launch_.output, state_);
    barrier(*world_);
    const std::string ending = "; samples " + ranges_text(samples) + " are left out from now on";
    if (rise == 0) return ending;
    return "; the loss rose from step " + std::to_string(rise) +
           " on, so the job goes back to a "
           "checkpoint before step " +
           std::to_string(std::max<std::int64_t>(rise - 1, 1)) + ending;
}

Moment Trainer::moment() const {
    return {state_.step, tokens_before_, state_.tokens, state_.step == spec_.steps};
}

std::vector<ValidResult> Trainer::measure(const Moment& moment) {
    const std::vector<const ValidSet*> sets = validation_.due(moment);
    if (sets.empty()) return {};
    phase_ = Phase::Validation;
    if (writes()) validation_.measure_text(model_.tokenizer->tokenizer, corpus_);
    std::vector<ValidResult> results =
        validation_.run(sets, *step_, spec_, batch_rules(), dp_->rank());
    if (!writes()) return results;
    metrics_->append(valid_row(state_.step, results));
    std::printf("%s\n", valid_text(state_.step, results).c_str());
    return results;
}

bool Trainer::validate(const Moment& moment) {
    const std::vector<ValidResult> results = measure(moment);
    if (results.empty() || !results.front().tracked) return false;
    const double loss = results.front().loss;
    state_.valid_loss = loss;
    const bool best = note_validation(state_, loss, spec_.early_stop.min_delta);
    if (best && spec_.checkpoint_keep_best && saver_) saver_->best(state_.step);
    return best;
}

// Measures the validation loss of the weights as the export rounds them. Runs after the last
// checkpoint, because nothing is trained after it. Restores the weights.
void Trainer::measure_export() {
    const std::vector<const ValidSet*> sets = validation_.due({.last = true});
    const std::optional<at::ScalarType> dtype = export_rounds_to(spec_);
    const bool exports_other = spec_.export_best && state_.best_step != state_.step;
    if (sets.empty() || !dtype || exports_other) return;
    std::vector<at::Tensor> kept;
    for (Chunk& chunk : step_->chunks()) {
        const at::Tensor& weight = chunk.parameters().flat_weight;
        kept.push_back(weight.clone());
        weight.copy_(weight.to(*dtype));
    }
    const ValidResult result =
        validation_.run({sets.front()}, *step_, spec_, batch_rules(), dp_->rank()).front();
    for (std::size_t i = 0; i < kept.size(); ++i)
        step_->chunks()[i].parameters().flat_weight.copy_(kept[i]);
    if (!writes()) return;
    metrics_->append({{"step", state_.step}, {"export_valid_loss", result.loss}});
    std::printf(
        "step %lld  held-out, weights rounded as in the export: loss %.6f (%+.2g compared with "
        "unrounded weights)\n",
        static_cast<long long>(state_.step), result.loss,
        result.loss - state_.valid_loss.value_or(result.loss));
}

void Trainer::sample() {
    if (spec_.sample.prompts.empty() || dp_->rank() > 0) return;
    // One chunk with the weights of all stages, on the rank that writes; it generates text alone.
    std::unique_ptr<Chunk> joined;
    if (pp_->size() * tp_->size() > 1) joined = joined_stages(*step_);
    if (!writes()) return;
    for (const std::string& prompt : spec_.sample.prompts) {
        const std::string text =
            continue_text(joined ? *joined : step_->chunks().front(), *model_.tokenizer, prompt,
                          {spec_.sample.max_tokens, 0.8, 1, spec_.seed});
        metrics_->append({{"step", state_.step}, {"prompt", prompt}, {"text", text}});
        const std::string shown =
            Json(prompt + text).dump(-1, ' ', false, Json::error_handler_t::replace);
        std::printf("step %lld  sample: %s\n", static_cast<long long>(state_.step), shown.c_str());
    }
}

// Saves a checkpoint. All ranks write their parts; rank 0 decides.
void Trainer::save(Save when) {
    finish_part();
    const at::Tensor saves = at::zeros({}, at::kDouble);
    if (saver_ && (when == Save::Always || saver_->last_step() != state_.step)) {
        metrics_->sync();
        if (saver_->has_room(state_.step) && saver_->begin(state_.step)) saves.fill_(1);
    }
    broadcast_from(0, *world_, saves, {Site::Agreement});
    if (saves.item<double>() == 0) return;
    phase_ = Phase::Checkpoint;
    saving_ = state_;
    const checkpoint::Name name{state_.step, launch_.attempt.token};
    part_->start(fs::path(launch_.output) / "checkpoints" / checkpoint::staged_name(name), name);
}

// Waits until all ranks have written their parts of the running save.
void Trainer::finish_part() {
    if (!part_->is_running()) return;
    const at::Tensor failed = at::zeros({}, at::kDouble);
    part_->wait();
    if (part_->has_failed()) failed.fill_(1);
    sum_over(*world_, failed, {Site::Agreement});
    conclude_parts(failed.item<double>() > 0);
}

// Ends the save for which all ranks have written their parts, or have failed. If one has failed,
// its reason is sent to rank 0.
void Trainer::conclude_parts(bool failed) {
    const Result<void> own = part_->take();
    if (!failed) {
        if (saver_) saver_->seal(*std::exchange(saving_, std::nullopt), record_);
        return;
    }
    saving_.reset();
    const std::optional<RankError> first = first_error(*world_, own);
    if (saver_) saver_->give_up(first->rank, first->error);
}

// Waits a moment until rolld records the last checkpoint, because retention deletes an older
// checkpoint only then.
void Trainer::await_recorded() {
    const auto deadline = Clock::now() + kRecordPatience;
    while (link_.connected() && saver_->pruning_is_due() && Clock::now() < deadline) {
        link_.await_line(100ms);
        for (const std::int64_t step : link_.poll().recorded) saver_->recorded(step);
    }
    saver_->finish();
}

}  // namespace roll::train
