#include "worker/train/trainer.hpp"

#include <cmath>
#include <cstdio>
#include <thread>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "worker/plan/lr_schedule.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/bad_step.hpp"
#include "worker/train/comm/timed_communicator.hpp"
#include "worker/train/failure.hpp"
#include "worker/train/generate_text.hpp"
#include "worker/train/job_record.hpp"
#include "worker/train/launch_checks.hpp"
#include "worker/train/left_out.hpp"
#include "worker/train/load_weights.hpp"
#include "worker/train/peak.hpp"
#include "worker/train/step_report.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kProgressEvery = 200ms;
constexpr auto kStepsToldEvery = 1s;
constexpr auto kRecordPatience = 3s;  // for the last checkpoint, so that older ones can go
constexpr auto kSpaceLookedForEvery = 500ms;
constexpr int kSkippedMax = 10;  // in a row; more are no outliers

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const protocol::Launch& launch, int rank, WorkerLink& link, TrainingData data,
                 Backend backend)
    : launch_(launch),
      rank_(rank),
      link_(link),
      backend_(std::move(backend)),
      spec_(std::move(data.spec)),
      record_(job_record(launch, spec_)),
      model_(std::move(data.model)),
      corpus_(std::move(data.corpus)),
      valid_(std::move(data.valid)),
      learned_(data.learned),
      sampler_(corpus_, spec_.seq_length, spec_.seed),
      validation_(spec_, corpus_, valid_),
      schedule_(plan::one_forward_one_backward(1, static_cast<int>(spec_.microbatches()))) {
    connect();
    TrainOptions options;
    options.init = {.seed = spec_.seed,
                    .std = model_.config.init_std,
                    .dtype = dtype_of(spec_.precision),
                    .device = backend_.device,
                    .draw = spec_.model.from.empty(),
                    .freeze = spec_.model.freeze};
    options.adamw = {spec_.optimizer.beta1, spec_.optimizer.beta2, spec_.optimizer.eps,
                     spec_.optimizer.weight_decay, spec_.optimizer.decays};
    options.clip_grad = spec_.optimizer.clip_grad;
    options.count_zeros = spec_.metrics.grad_zeros;
    options.normalize = spec_.normalize;
    step_.emplace(model_.config, schedule_, Groups{*pp_, *dp_}, options);
    const Parameters& parameters = step_->chunks()[0].parameters();
    const std::int64_t frozen = count_frozen(spec_.model.freeze, parameters.specs);
    if (frozen > 0 && writes())
        std::printf("%lld of %lld parameters are frozen\n", static_cast<long long>(frozen),
                    static_cast<long long>(parameters.flat_weight.numel()));
    state_ = first_state(spec_, corpus_.train_tokens());
    restore_newest();
    recall_left_out();
    if (writes()) open_outputs();
    link_.report(protocol::Ready{});
}

void Trainer::connect() {
    pp_ = std::make_unique<LocalCommunicator>(alone_, 0);
    const int world = launch_.world_size();
    const plan::Mesh mesh = need(plan::Mesh::make(spec_.parallel, world));
    if (world > 1) fabric_.emplace(fabric_options(launch_, rank_));
    const auto group = [&](const std::string& name,
                           const std::vector<int>& ranks) -> std::unique_ptr<Communicator> {
        if (!fabric_) return std::make_unique<LocalCommunicator>(alone_, 0);
        return fabric_->group(name, ranks);
    };
    dp_ = fabric_ ? backend_.group(*fabric_, "dp", mesh.group(rank_, plan::Axis::Dp))
                  : group("dp", {0});
    dp_ = std::make_unique<TimedCommunicator>(std::move(dp_), waited_);
    std::vector<int> everyone;
    for (int rank = 0; rank < world; ++rank) everyone.push_back(rank);
    world_ = group("world", everyone);
}

void Trainer::start_from_given() {
    const std::string& from = spec_.model.from;
    if (from.empty()) return;
    const std::string how = load_weights(from, step_->chunks()[0].parameters(), spec_.seed);
    if (writes()) std::printf("starting from the weights in %s (%s)\n", from.c_str(), how.c_str());
}

// Rank 0 reads every byte of the candidates; the others follow its choice.
void Trainer::restore_newest() {
    const std::vector<fs::path> candidates = candidates_of(launch_);
    if (candidates.empty()) {
        if (launch_.kind == "resume")
            throw RankFailure(2, "there is no recorded checkpoint to resume from");
        start_from_given();
        return;
    }
    const at::Tensor chosen = at::zeros({}, at::kDouble);
    if (writes()) {
        choice_ = checkpoint::choose_newest(candidates, checkpoint::For::Resume);
        for (const std::string& reason : choice_.reasons) std::printf("%s\n", reason.c_str());
        if (choice_.directory) chosen.fill_(static_cast<double>(choice_.skipped.size() + 1));
    }
    sum_over(*world_, chosen);
    const auto number = static_cast<std::size_t>(chosen.item<double>());
    if (number == 0)
        throw RankFailure(1, "none of the " + std::to_string(candidates.size()) +
                                 " recorded checkpoints verifies; the newest: " +
                                 (writes() ? choice_.reasons.front() : "see rank 0"));
    const fs::path& directory = candidates[number - 1];
    const std::string warning = check_same_model(directory, model_, spec_.tokenizer);
    if (!warning.empty()) model_.warnings.push_back(warning);
    const checkpoint::State restored =
        restore(directory, step_->chunks()[0], step_->optimizers()[0]);
    check_continues(restored, state_, directory);
    state_ = continued(restored, state_);
    // Whoever resumes a job that stopped early wants it to train on.
    if (output_of(directory).lexically_normal() != fs::path(launch_.output).lexically_normal())
        state_.stale_validations = 0;
    if (writes())
        std::printf("resumed at step %lld from %s\n", static_cast<long long>(state_.step),
                    directory.c_str());
    if (!writes()) return;
    for (const std::string& line : differences(directory, record_))
        std::printf("another setting: %s\n", line.c_str());
}

// What an attempt before this one found out after its last checkpoint, and the job that this one
// resumes.
void Trainer::recall_left_out() {
    if (writes()) {
        join(state_.left_out, read_left_out(launch_.output, state_));
        if (choice_.directory)
            join(state_.left_out, read_left_out(output_of(*choice_.directory), state_));
    }
    share(state_.left_out, *world_);
    if (writes() && !state_.left_out.empty())
        std::printf("left out: samples %s, with which a step was not finite\n",
                    ranges_text(state_.left_out).c_str());
}

void Trainer::open_outputs() {
    const fs::path output = launch_.output;
    SaverOptions options{output / "checkpoints",
                         launch_.attempt.token,
                         retention_of(spec_),
                         recorded_of(launch_, choice_),
                         snapshot_bytes(step_->chunks()[0].parameters(), model_) + record_.size(),
                         spec_.checkpoint_first_step && state_.step == 0};
    if (spec_.checkpoint_keep_best && state_.best_valid_loss)
        options.retention.best_step =
            recorded_best(options.checkpoints, options.recorded, state_.best_step);
    fs::path earlier;
    if (choice_.directory) {
        const fs::path& from = *choice_.directory;
        const fs::path job = output_of(from);
        if (job.lexically_normal() == output.lexically_normal())
            options.retention.resumed_from = choice_.manifest.name;
        else
            earlier = job / "metrics.jsonl";
    }
    need(make_directories(options.checkpoints));
    need(write_file_atomically(output / "job.json", record_));
    saver_.emplace(std::move(options), model_, link_);
    metrics_.emplace(MetricsOptions{output, earlier, state_.step,
                                    metrics_head(spec_, model_.config, corpus_, learned_),
                                    spec_.metrics, validation_.names()});
    std::printf("%s\n", headline(spec_, model_.config, corpus_).c_str());
    if (learned_.documents > 0)
        std::printf("%s\n", documents_line(learned_, spec_.seq_length).c_str());
    std::vector<std::string> warnings = model_.warnings;
    for (std::string& warning : warnings_of(spec_, corpus_, learned_))
        warnings.push_back(std::move(warning));
    for (const std::string& warning : warnings) std::printf("warning: %s\n", warning.c_str());
}

// What any rank has heard, all ranks act on, at the same boundary.
Trainer::Agreed Trainer::agree() {
    const Heard heard = link_.poll();
    if (saver_) {
        for (const std::int64_t step : heard.recorded) saver_->recorded(step);
        saver_->poll();
    }
    if (saver_) saver_->ask(heard.save);
    const at::Tensor votes = at::zeros({3}, at::kDouble);
    if (heard.stop) votes[0] = 1;
    if (heard.stop && !heard.checkpoint) votes[1] = 1;
    // Only the rank that writes has a say: each may hear it at another step. What it saved at this
    // very step was begun before it heard.
    if (saver_ && saver_->is_asked() && saver_->last_step() != state_.step) votes[2] = 1;
    sum_over(*world_, votes);
    return {votes[0].item<double>() > 0, votes[1].item<double>() == 0, votes[2].item<double>() > 0};
}

bool Trainer::due(std::int64_t every) const {
    return every > 0 && (state_.step % every == 0) && state_.step < spec_.steps;
}

bool Trainer::stops_early() const {
    return spec_.early_stop.patience > 0 && state_.stale_validations >= spec_.early_stop.patience;
}

int Trainer::run() {
    if (spec_.valid_at_start && state_.step == 0) measure({.last = true});
    while (state_.step < spec_.steps && !stops_early()) {
        const Agreed agreed = agree();
        if (agreed.stop) {
            if (agreed.checkpoint && saver_ && saver_->last_step() != state_.step) save();
            if (saver_) saver_->finish();
            if (writes())
                std::printf("stopped at step %lld\n", static_cast<long long>(state_.step));
            return protocol::kExitYielded;
        }
        if (agreed.save) save();
        train_step();
        const bool whole = state_.step == spec_.steps;
        if (peak_flops_ == 0 && !whole) find_peak();
        const bool best = validate(moment());
        const bool last = whole || stops_early();
        if (due(spec_.sample.every) || last) sample();
        const bool proves = spec_.checkpoint_first_step && state_.step == 1;
        const bool again = saver_ && saver_->is_due_again();
        if (due(spec_.checkpoint_every) || last || (best && spec_.checkpoint_keep_best) || proves ||
            again)
            save();
    }
    if (stops_early() && writes())
        std::printf(
            "stopped early at step %lld: the last %lld validations found no loss lower by more "
            "than "
            "%g than the best before; the lowest is that of step %lld\n",
            static_cast<long long>(state_.step), static_cast<long long>(state_.stale_validations),
            spec_.early_stop.min_delta, static_cast<long long>(state_.best_step));
    // A checkpoint of the last step may be another job's, or not be recorded as ours.
    if (saver_ && saver_->last_step() != state_.step && launch_.kind == "resume") save();
    if (!await_space()) return protocol::kExitYielded;
    if (saver_) {
        saver_->need_saved();
        await_recorded();
    }
    measure_export();
    barrier(*world_);
    return 0;
}

// Without its last checkpoint what was done since the one before is lost: on a full disk it is
// waited for. All ranks wait together, so that none sits in a collective and each can be told to
// stop. Returns false if one was.
bool Trainer::await_space() {
    const auto deadline = Clock::now() + spec_.checkpoint_wait_for_space;
    for (;;) {
        if (saver_) saver_->finish();
        const at::Tensor waits = at::zeros({}, at::kDouble);
        if (saver_ && saver_->is_put_off() && Clock::now() < deadline) waits.fill_(1);
        sum_over(*world_, waits);
        if (waits.item<double>() == 0) return true;
        if (agree().stop) {
            if (writes())
                std::printf("stopped at step %lld, before there was room for its checkpoint\n",
                            static_cast<long long>(state_.step));
            return false;
        }
        if (writes())
            link_.report(protocol::Progress{
                Json{{"phase", "wait for disk space"}, {"step", state_.step}}.dump()});
        std::this_thread::sleep_for(kSpaceLookedForEvery);
        if (saver_ && saver_->is_due_again()) save();
    }
}

void Trainer::train_step() {
    const auto start = Clock::now();
    const double waited = waited_;
    const std::vector<Microbatch> batch =
        step_batches(sampler_, place(), model_.config.vocab, state_.left_out);
    const double data_wait = seconds_since(start);
    const double lr = plan::learning_rate(spec_.optimizer, spec_.steps, state_.step);
    const double decay = plan::weight_decay(spec_.optimizer, spec_.steps, state_.step);
    for (AdamW& optimizer : step_->optimizers()) optimizer.set_weight_decay(decay);
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

// Where documents are kept apart, a step's own: all ranks' together, each with as many tokens.
plan::FlopsPerToken Trainer::flops_of(std::span<const Microbatch> batch) {
    if (!spec_.data.documents_apart) return plan::flops_per_token(model_.config, spec_.seq_length);
    const plan::FlopsPerToken mine = plan::flops_per_token(model_.config, piece_lengths(batch));
    const at::Tensor sums = at::tensor({mine.causal, mine.full}, at::kDouble) / dp_->size();
    sum_over(*world_, sums);
    return {sums[0].item<double>(), sums[1].item<double>()};
}

// Every rank, so that the one that straggles or hangs can be told from those that wait for it.
void Trainer::tell_step(double own_seconds) {
    own_seconds_ = own_seconds_ == 0 ? own_seconds : 0.9 * own_seconds_ + 0.1 * own_seconds;
    const auto now = Clock::now();
    if (now - told_ < kStepsToldEvery && state_.step != spec_.steps) return;
    told_ = now;
    link_.report(protocol::StepDone{state_.step, spec_.steps, std::llround(1e3 * own_seconds_)});
}

// After the first step, which nobody should wait longer for. On all ranks at once, because they
// share the machine while they train, too.
void Trainer::find_peak() {
    const bool told = spec_.peak_tflops > 0;
    const double mine =
        told ? spec_.peak_tflops * 1e12
             : measure_peak_flops(step_->chunks()[0].parameters().flat_weight.options());
    const at::Tensor all = at::full({}, mine, at::kDouble);
    sum_over(*world_, all);
    peak_flops_ = all.item<double>();
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
    if (backend_.memory) report.gpu = backend_.memory();
    report.eta_seconds = step_seconds_ * static_cast<double>(spec_.steps - state_.step);
    metrics_->append(row_of(report));
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

// The weights were left alone, and the last checkpoint is still a good one. If the run ends, the
// rank where it began speaks; the others end as those do that lost it, so that its sentence becomes
// the attempt's reason.
void Trainer::not_finite(const StepResult& result, std::span<const Microbatch> batch) {
    const BadStep bad = find_bad_step(step_->chunks()[0], batch, result, place(), *world_);
    using Policy = spec::OnNotFinite;
    if (spec_.on_not_finite == Policy::Skip && ++skipped_in_a_row_ <= kSkippedMax) {
        if (writes()) std::printf("%s; the step is left out\n", bad.sentence.c_str());
        return;
    }
    if (saver_) saver_->finish();
    std::string ending;
    if (spec_.on_not_finite == Policy::Rewind) {
        join(state_.left_out, bad.samples);
        if (writes()) write_left_out(launch_.output, state_);
        barrier(*world_);
        ending = "; samples " + ranges_text(bad.samples) + " are left out from now on";
    }
    if (bad.rank != rank_)
        throw RankFailure(protocol::kExitPeerLost,
                          "rank " + std::to_string(bad.rank) + " met a number that is not finite");
    const bool again =
        spec_.on_not_finite == Policy::Retry || spec_.on_not_finite == Policy::Rewind;
    throw RankFailure(again ? 1 : protocol::kExitDiverged, bad.sentence + ending);
}

Moment Trainer::moment() const {
    return {state_.step, tokens_before_, state_.tokens, state_.step == spec_.steps};
}

std::vector<ValidResult> Trainer::measure(const Moment& moment) {
    const std::vector<const ValidSet*> sets = validation_.due(moment);
    if (sets.empty()) return {};
    if (writes()) validation_.measure_text(model_.tokenizer->tokenizer, corpus_);
    std::vector<ValidResult> results =
        validation_.run(sets, *step_, spec_, model_.config.vocab, dp_->rank());
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

// After the last checkpoint: the weights come back as they were, but nothing is trained any more.
void Trainer::measure_export() {
    const std::vector<const ValidSet*> sets = validation_.due({.last = true});
    const std::optional<at::ScalarType> dtype = export_rounds_to(spec_);
    const bool exports_other = spec_.export_best && state_.best_step != state_.step;
    if (sets.empty() || !dtype || exports_other) return;
    const at::Tensor& weight = step_->chunks()[0].parameters().flat_weight;
    const at::Tensor kept = weight.clone();
    weight.copy_(weight.to(*dtype));
    const ValidResult result =
        validation_.run({sets.front()}, *step_, spec_, model_.config.vocab, dp_->rank()).front();
    weight.copy_(kept);
    if (!writes()) return;
    metrics_->append({{"step", state_.step}, {"export_valid_loss", result.loss}});
    std::printf("step %lld  held-out, weights as the export rounds them: loss %.6f, %+.2g\n",
                static_cast<long long>(state_.step), result.loss,
                result.loss - state_.valid_loss.value_or(result.loss));
}

void Trainer::sample() {
    if (!writes()) return;
    for (const std::string& prompt : spec_.sample.prompts) {
        const std::string text = continue_text(step_->chunks()[0], *model_.tokenizer, prompt,
                                               {spec_.sample.max_tokens, 0.8, 1, spec_.seed});
        metrics_->append({{"step", state_.step}, {"prompt", prompt}, {"text", text}});
        const std::string shown =
            Json(prompt + text).dump(-1, ' ', false, Json::error_handler_t::replace);
        std::printf("step %lld  sample: %s\n", static_cast<long long>(state_.step), shown.c_str());
    }
}

void Trainer::save() {
    if (!saver_) return;
    metrics_->sync();
    if (!saver_->has_room(state_.step)) return;
    saver_->save(take_snapshot(step_->chunks()[0], step_->optimizers()[0], state_, record_));
}

// Retention wants the last checkpoint recorded before an older one goes; the ledger is given a
// moment, not more.
void Trainer::await_recorded() {
    const auto deadline = Clock::now() + kRecordPatience;
    while (link_.connected() && saver_->pruning_is_due() && Clock::now() < deadline) {
        link_.await_line(100ms);
        for (const std::int64_t step : link_.poll().recorded) saver_->recorded(step);
    }
    saver_->finish();
}

}  // namespace roll::train
