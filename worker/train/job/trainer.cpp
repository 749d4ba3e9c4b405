#include "worker/train/job/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include <ATen/ATen.h>

#include "worker/plan/lr_schedule.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/job/faults.hpp"
#include "worker/train/job/loss_scale.hpp"
#include "worker/train/job/replicas.hpp"
#include "worker/train/job/step_size.hpp"
#include "worker/train/model/context.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/report/peak.hpp"
#include "worker/train/report/step_report.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using namespace std::chrono_literals;

constexpr auto kProgressEvery = 200ms;
constexpr auto kStepsToldEvery = 1s;
constexpr auto kSpaceLookedForEvery = 500ms;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the number of seconds of a step in which the rank did not wait for other ranks.
double own_seconds_in(const PhaseClock::Times& times) {
    double own = 0;
    for (const Phase phase :
         {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Other})
        own += times[static_cast<std::size_t>(phase)];
    return own;
}

// Logs the steps and samples that did not change the weights, and the reason if the training ended
// before its last step.
void tell_end(const spec::TrainSpec& spec, const checkpoint::State& state, bool stopped_early) {
    std::printf("%s", untrained_text(state).c_str());
    if (!stopped_early) return;
    std::printf(
        "stopped early at step %lld: none of the last %lld values of %s improved on the best "
        "earlier value by more than %g; the best %s was at step %lld\n",
        static_cast<long long>(state.step), static_cast<long long>(state.stale_validations),
        spec.early_stop.metric.name.c_str(), spec.early_stop.min_delta, spec.best.name.c_str(),
        static_cast<long long>(state.best_step));
}

}  // namespace

bool Trainer::due(std::int64_t every) const {
    return every > 0 && (state_.step % every == 0) && state_.step < last_step();
}

bool Trainer::stops_early() const {
    return spec_.early_stop.patience > 0 && state_.stale_validations >= spec_.early_stop.patience;
}

// Returns this rank's place in the data. The ranks of a cp group have the same place.
StepPlace Trainer::place() const {
    return {spec_, state_.step, state_.samples, dp_->rank() / spec_.parallel.cp};
}

BatchRules Trainer::batch_rules() const {
    return {.vocab = model_.config.vocab,
            .left_out = state_.left_out,
            .references = references_ ? &*references_ : nullptr,
            .pad = padding_of(model_),
            .teacher = teacher_ ? &*teacher_ : nullptr,
            .config = &model_.config,
            .tokens_most = tokens_within_limit(spec_, pipeline_)};
}

// Returns the values that are passed to hooks.
HookFacts Trainer::facts() const {
    HookFacts facts{state_.step, last_step(), state_.tokens};
    if (state_.step > 0) facts.loss = state_.loss;
    facts.valid_loss = state_.valid_loss;
    return facts;
}

// Handles the checkpoints that rolld has recorded. Retention may now delete an older checkpoint,
// and the hook `save` now finds the directory under its final name.
void Trainer::take_recorded(const std::vector<std::int64_t>& steps) {
    if (!saver_) return;
    for (const std::int64_t step : steps) {
        saver_->recorded(step);
        said_saved_ = step;
        HookFacts of_save = facts();
        of_save.step = step;
        of_save.checkpoint = fs::path(launch_.output) / "checkpoints" /
                             checkpoint::final_name({step, launch_.attempt.token});
        hooks_.run("save", of_save);
        if (exports_) exports_->recorded(step, of_save.checkpoint);
    }
}

int Trainer::run() {
    try {
        hooks_.run("start", facts());
        if (saver_ && spec_.export_every > 0)
            exports_.emplace(launch_, spec_, model_, *saver_, link_);
        const int status = run_steps();
        if (exports_ && status == 0) {
            exports_->finish();
            saver_->finish();  // retention may now delete the exported checkpoints
        }
        HookFacts of_end = facts();
        of_end.status = status;
        hooks_.run("end", of_end);
        hooks_.finish();
        if (!hooks_.failure().empty()) throw RankFailure(protocol::kExitInvalid, hooks_.failure());
        return status;
    } catch (const OutOfMemory& failure) {
        throw OutOfMemory(failure.bytes(), doing());
    } catch (const std::bad_alloc&) {
        throw OutOfMemory(0, doing());
    }
}

// Returns a description of this rank's current activity, for a message.
std::string Trainer::doing() const {
    if (activity_ != Activity::Step)
        return activity_ == Activity::Validation ? "validation" : "the checkpoint";
    return "step " + std::to_string(state_.step + 1) + ", " + step_->doing();
}

int Trainer::run_steps() {
    if (stopped_) return protocol::kExitYielded;
    if (spec_.valid_at_start && state_.step == 0) {
        measure({.last = true});
        judge_.forget();  // untrained weights cannot be the best checkpoint
    }
    bool ends = state_.step >= last_step() || stops_early();
    Agreed agreed = ends ? Agreed() : agree();
    while (!ends) {
        if (agreed.fail) end_after_hook();
        if (agreed.stop) {
            stop(agreed);
            return protocol::kExitYielded;
        }
        if (agreed.save) save();
        if (agreed.measure) find_peak();
        carry_out(agreed.requests);
        agreed = train_step();
        hooks_.step_done(facts());
        const bool whole = state_.step == last_step();
        if (pace_.peak_flops == 0 && !whole) find_peak();
        if (const std::int64_t every = spec_.check_replicas; every > 0 && state_.step % every == 0)
            check_replicas();
        const auto valid = measure(moment());
        const bool measured = valid && !valid->empty();
        if (measured && valid->front().tracked) state_.valid_loss = valid->front().loss;
        bool evaluates = due(spec_.evaluation.every) || whole;
        if (!valid || (evaluates && !evaluate_tasks(whole))) {
            agreed.add(agree());
            continue;
        }
        bool best = judge();
        ends = whole || stops_early();
        if (ends && !evaluates) {
            evaluates = evaluate_tasks(/*last=*/true);
            best |= judge();
        }
        const bool sampled = (due(spec_.sample.every) || ends) && sample();
        const bool proves = spec_.checkpoint_first_step && state_.step == 1;
        const bool saves = due(spec_.checkpoint_every) || ends ||
                           (best && spec_.checkpoint_keep_best) || proves || agreed.save;
        if (saves) save();
        agreed.save = false;
        // Validation, sampling and saving take time, so a request may have arrived in the meantime.
        if (!ends && (measured || evaluates || sampled || saves)) agreed.add(agree());
    }
    end_profile();
    steering_.ended = true;
    carry_out(agreed.requests);
    carry_out({steering_.waiting.begin(), steering_.waiting.end()});
    steering_.waiting.clear();
    if (writes()) tell_end(spec_, state_, stops_early());
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

// Ends the run because a hook has failed. Checkpoints that were saved before are kept.
void Trainer::end_after_hook() {
    finish_part();
    if (saver_) saver_->finish();
    if (!writes()) throw RankFailure(protocol::kExitPeerLost, "a hook of rank 0 has failed");
    throw RankFailure(protocol::kExitInvalid, hooks_.failure());
}

// Ends the run before its last step.
void Trainer::stop(const Agreed& agreed) {
    if (agreed.checkpoint) save(Save::UnlessSaved);
    finish_part();
    if (saver_) saver_->finish();
    if (writes()) std::printf("stopped at step %lld\n", static_cast<long long>(state_.step));
}

// Waits while the final checkpoint of the run is delayed because the disk is full. Without this
// checkpoint, the steps since the previous checkpoint would be lost. All ranks wait together, so no
// rank blocks in a collective, and each rank can be stopped. Returns false if a rank was told to
// stop.
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
        carry_out(agreed.requests);
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

// Trains one step. Returns the requests that the ranks have agreed on. The ranks vote before the
// step's update, in the transfer that gathers the step's loss.
Agreed Trainer::train_step() {
    const auto start = Clock::now();
    const TensorBytes before = tensors_now();
    reset_tensor_peak();
    clock_.enter(Phase::Data);
    set_batch_size(spec_, state_.samples);
    const std::vector<Microbatch> whole = step_batches(sampler_, place(), batch_rules());
    const std::vector<Microbatch> batch = context_parts(whole, cp_.get());
    fit_schedule(spec_, pipeline_, std::ssize(batch));  // step_ refers to this schedule
    clock_.enter(Phase::Other);
    const std::int64_t scheduled = scheduled_steps(state_);
    const double lr = plan::learning_rate(spec_.optimizer, spec_.steps, scheduled);
    const double decay = plan::weight_decay(spec_.optimizer, spec_.steps, scheduled);
    for (Optimizer& optimizer : step_->optimizers()) optimizer.set_weight_decay(decay);
    activity_ = Activity::Step;
    const std::int64_t norms_every = spec_.metrics.norms_every;
    const bool measures = norms_every > 0 && (state_.step + 1) % norms_every == 0;
    const StepResult result =
        step_->run(batch, lr, state_.loss_scale ? state_.loss_scale->scale : 1, measures,
                   guard_.limits(), [&] { return numbers_at_end(whole); });
    if (const auto failure = guard_.check(*step_, batch, result, place(), *world_)) {
        finish_part();
        if (saver_) saver_->finish();
        throw *failure;
    }
    if (state_.loss_scale && result.tokens > 0) note_scale(result);
    ++state_.step;
    state_.samples += spec_.global_batch_size;
    tokens_before_ = std::exchange(state_.tokens, state_.tokens + result.tokens);
    if (result.updated) state_.loss = result.loss;
    state_.clipped_steps += result.clip_factor < 1;
    tell_step();
    const double seconds = seconds_since(start);
    clock_.enter(Phase::Agreement);
    const Agreed agreed = count(result.extra_RN);
    clock_.enter(Phase::Outside);
    after_step(result, seconds);
    if (!std::exchange(pace_.memory_told, true)) {
        tell_memory(before);
        part_->allocate_buffer();
    }
    if (auto& profile = steering_.profile) {
        profile->steps.push_back({state_.step, start, Clock::now()});
        if (state_.step >= profile->last) end_profile();
    }
    return agreed;
}

// Returns the numbers that this rank sends together with its loss of a step: the times of its
// phases since it sent them in the previous step, its FLOPs per token, and its votes. If documents
// are kept apart, the FLOPs differ between steps and ranks.
std::vector<double> Trainer::numbers_at_end(const std::vector<Microbatch>& batch) {
    const PhaseScope agreeing(clock_, Phase::Agreement);
    pace_.times = clock_.take();
    std::vector<double> numbers(pace_.times.begin(), pace_.times.end());
    const plan::FlopsPerToken flops =
        spec_.data.documents_apart
            ? plan::flops_per_token(model_.config, piece_lengths(batch), untrained_)
            : plan::flops_per_token(model_.config, spec_.seq_length, untrained_);
    numbers.insert(numbers.end(), {flops.causal, flops.full});
    const std::vector<double> votes = ballot(state_.step + 1);
    numbers.insert(numbers.end(), votes.begin(), votes.end());
    return numbers;
}

// Reports the step to roll-worker. Every rank reports, so that roll-worker can distinguish a slow
// or hanging rank from the ranks that wait for it.
void Trainer::tell_step() {
    const double own_seconds = own_seconds_in(pace_.times);
    pace_.own_seconds =
        pace_.own_seconds == 0 ? own_seconds : 0.9 * pace_.own_seconds + 0.1 * own_seconds;
    const auto now = Clock::now();
    if (now - pace_.told < kStepsToldEvery && state_.step != last_step()) return;
    pace_.told = now;
    link_.report(
        protocol::StepDone{state_.step, last_step(), std::llround(1e3 * pace_.own_seconds)});
}

// Measures the peak FLOP/s. Runs after the first step, so that this step is not delayed. Runs on
// all ranks at the same time, because the ranks also share the machine during training.
void Trainer::find_peak() {
    const bool told = spec_.peak_tflops > 0;
    const double mine =
        told ? spec_.peak_tflops * 1e12
             : measure_peak_flops(step_->chunks().front().parameters().flat_weight.options());
    const at::Tensor all = at::full({}, mine, at::kDouble);
    sum_over(*world_, all, {Site::Agreement});
    pace_.peak_flops = std::max(pace_.peak_flops, all.item<double>());
}

void Trainer::after_step(const StepResult& result, double seconds) {
    if (!writes()) return;
    // the mean over the ranks, which all have the same number of tokens
    const at::Tensor flops = result.extra_RN.narrow(1, kPhases, 2).mean(0);
    pace_.step_seconds =
        pace_.step_seconds == 0 ? seconds : 0.9 * pace_.step_seconds + 0.1 * seconds;
    StepReport report{.step = state_.step,
                      .steps = last_step(),
                      .result = result,
                      .ranks = world_->size(),
                      .lr = result.lr,
                      .clipped_share = static_cast<double>(state_.clipped_steps) /
                                       static_cast<double>(state_.step),
                      .tokens = state_.tokens,
                      .seconds = seconds,
                      .phases = phase_report(result.extra_RN.narrow(1, 0, kPhases)),
                      .flops = {flops[0].item<double>(), flops[1].item<double>()},
                      .peak_flops = pace_.peak_flops,
                      .memory = process_memory()};
    if (state_.loss_scale) {
        report.loss_scale = result.loss_scale;
        report.overflows = state_.loss_scale->overflows;
    }
    if (!spec_.batch_phases.empty()) report.batch_size = spec_.global_batch_size;
    report.split = pipeline_.schedule.microbatches - spec_.microbatches();
    // A whole step cannot be faster than its matrix products alone. If a step seems faster, the
    // machine was busy while the peak was measured.
    const double rate = report.tokens_per_second() * report.flops.causal;
    if (spec_.peak_tflops == 0 && pace_.peak_flops > 0 && rate > pace_.peak_flops) {
        pace_.peak_beaten = true;
        pace_.peak_flops = report.peak_flops = rate;
    }
    if (backend_.memory) report.gpu = backend_.memory();
    report.eta_seconds = pace_.step_seconds * static_cast<double>(last_step() - state_.step);
    const bool logged = state_.step % steering_.log_every == 0 || state_.step == last_step();
    if (logged) metrics_->append(row_of(report));
    if (!result.layers.empty()) metrics_->append(row_of(state_.step, result.layers));
    if (result.updated) guard_.note_loss(state_.step, result.loss);
    const auto now = Clock::now();
    const bool last = state_.step == last_step();
    const bool asked = steering_.log_every > 1 && logged;
    if (now < pace_.progress_due && !last && result.updated && !asked) return;
    pace_.progress_due = now + kProgressEvery;
    Json progress = {{"step", state_.step},
                     {"steps", last_step()},
                     {"loss", result.loss},
                     {"tokens_per_second", report.tokens_per_second()},
                     {"eta_s", report.eta_seconds},
                     {"tokens", state_.tokens},
                     {"phase", "train"}};
    if (report.loss_scale)
        progress.update({{"loss_scale", *report.loss_scale}, {"overflows", report.overflows}});
    if (spec_.parallel.pp > 1) progress["schedule"] = pipeline_.schedule.name;
    if (state_.skipped_steps > 0) progress["skipped_steps"] = state_.skipped_steps;
    if (!state_.left_out.empty()) progress["left_out_samples"] = state_.left_out.size();
    if (saver_ && saver_->is_put_off()) progress["checkpoint_postponed"] = saver_->why_put_off();
    link_.report(protocol::Progress{progress.dump()});
    if (logged) std::printf("%s\n", line_of(report).c_str());
    std::fflush(stdout);
}

// Ends the attempt if replicas that must be equal are different. One rank reports the reason. The
// other ranks exit with the status for a lost peer.
void Trainer::check_replicas() {
    const plan::Mesh mesh = need(plan::Mesh::make(spec_.parallel, world_->size()));
    const auto difference = replica_difference(*step_, mesh.replicas(rank_));
    const at::Tensor found_R = at::zeros({world_->size()}, at::kDouble);
    if (difference) found_R[rank_] = 1;
    sum_over(*world_, found_R, {Site::Agreement});
    if (found_R.sum().item<double>() == 0) return;
    finish_part();
    if (saver_) saver_->finish();
    if (const auto teller = found_R.argmax().item<std::int64_t>(); teller != rank_)
        throw RankFailure(
            protocol::kExitPeerLost,
            "rank " + std::to_string(teller) + " found replicas that differ; its log names them");
    throw RankFailure(1, "after step " + std::to_string(state_.step) + ", " + *difference +
                             "; memory or a processor of one of these ranks may be damaged");
}

// Changes the loss scale after a step. Ends the attempt if lower scales have not helped. All ranks
// have the same result.
void Trainer::note_scale(const StepResult& result) {
    note_step(*state_.loss_scale, spec_.loss_scale,
              !result.updated && result.too_high == TooHigh::None);
    const auto why = too_many_overflows(*state_.loss_scale, spec_.loss_scale);
    if (!why) return;
    finish_part();
    if (saver_) saver_->finish();
    throw RankFailure(writes() ? protocol::kExitDiverged : protocol::kExitPeerLost,
                      "step " + std::to_string(state_.step + 1) + ": " + *why);
}

Moment Trainer::moment() const {
    return {state_.step, tokens_before_, state_.tokens, state_.step == last_step()};
}

// Generates sample texts. Returns true, on all ranks, if the job asks for sample texts.
bool Trainer::sample() {
    if (spec_.sample.prompts.empty()) return false;
    const TextModel model = text_model(*step_);
    // Usually, only the first replica generates the text. If replicas share weights, all replicas
    // generate the same text.
    if (dp_->rank() > 0 && !step_->shares_weights()) return true;
    for (const std::string& prompt : spec_.sample.prompts) {
        const std::string text = continue_text(model, *model_.tokenizer, prompt,
                                               {spec_.sample.max_tokens, 0.8, 1, spec_.seed});
        if (!writes()) continue;
        metrics_->append({{"step", state_.step}, {"prompt", prompt}, {"text", text}});
        const std::string shown =
            Json(prompt + text).dump(-1, ' ', false, Json::error_handler_t::replace);
        std::printf("step %lld  sample: %s\n", static_cast<long long>(state_.step), shown.c_str());
    }
    return true;
}

}  // namespace roll::train
