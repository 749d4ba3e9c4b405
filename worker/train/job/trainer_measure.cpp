// The measurements of the trainer: validation sets, tasks, and the weights as they are exported.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "common/files.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/data/choices.hpp"
#include "worker/train/job/trainer.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/report/memory_report.hpp"

namespace roll::train {

namespace fs = std::filesystem;

// Returns true if a measurement must end, because a rank was told to stop. A measurement after the
// last step (`last`) never ends early, because no later attempt repeats the measurement. All ranks
// must call this function. roll-worker ends a rank that reports no step for a long time; therefore,
// this function reports the newest step again.
bool Trainer::measurement_ends(bool last) {
    if (const auto now = Clock::now(); now - pace_.told > std::chrono::seconds(10)) {
        pace_.told = now;
        link_.report(
            protocol::StepDone{state_.step, last_step(), std::llround(1e3 * pace_.own_seconds)});
    }
    const bool stops = !last && link_.is_stopped();
    const at::Tensor votes = at::full({}, stops ? 1.0 : 0.0, at::kDouble);
    sum_over(*world_, votes, {Site::Agreement});
    const bool ends = votes.item<double>() > 0;
    if (ends && writes())
        std::printf("step %lld  the job stops, so its measurement is not completed\n",
                    static_cast<long long>(state_.step));
    return ends;
}

// Reports the memory of all ranks after the first step of the attempt. The report does not include
// the additional memory of sampling, validation and saving, which come later.
void Trainer::tell_memory(const TensorBytes& before) {
    const std::optional<DeviceMemory> gpu =
        backend_.memory ? std::optional(backend_.memory()) : std::nullopt;
    const at::Tensor all =
        gather_over(*world_, to_tensor(measured_memory(*step_, before, gpu)), {Site::Agreement});
    if (!writes()) return;
    const std::vector<RankMemory> ranks = memories_of(all);
    const plan::Mesh mesh = need(plan::Mesh::make(spec_.parallel, world_->size()));
    std::vector<int> stages;
    for (int rank = 0; rank < world_->size(); ++rank) stages.push_back(mesh.place(rank).pp);
    const auto planned = stage_memory(spec_, model_.config, pipeline_, !launch_.gpus.empty());
    const OrderedJson json = memory_json(state_.step, ranks, planned, stages);
    const auto written =
        write_file_atomically(fs::path(launch_.output) / "memory.json", json.dump(1) + "\n");
    if (!written) std::printf("warning: %s\n", sentence_of(written.error()).c_str());
    std::printf("%s\n", memory_line(state_.step, ranks, planned, stages).c_str());
}

std::optional<std::vector<ValidResult>> Trainer::measure(const Moment& moment) {
    const std::vector<const ValidSet*> sets = validation_.due(moment);
    if (sets.empty()) return std::vector<ValidResult>();
    activity_ = Activity::Validation;
    if (writes()) validation_.measure_text(model_.tokenizer->tokenizer, corpus_);
    swap_for_evaluation();
    const bool last = state_.step == last_step();
    const auto measured = validation_.run(sets, *step_, spec_, batch_rules(), place().dp_rank,
                                          [&] { return measurement_ends(last); });
    swap_for_evaluation();
    if (!measured) return std::nullopt;
    const std::vector<ValidResult>& results = *measured;
    const OrderedJson row = valid_row(state_.step, results);
    judge_.add(row);
    if (!writes()) return results;
    metrics_->append(row);
    std::printf("%s\n", valid_text(state_.step, results).c_str());
    HookFacts of_set = facts();
    of_set.valid_loss = results.front().loss;
    hooks_.run("evaluation", of_set);
    return results;
}

void Trainer::swap_for_evaluation() {
    if (spec_.evaluation.averaged) step_->swap_average();
}

std::vector<std::string> Trainer::metrics() const {
    std::vector<std::string> known = validation_.metrics(spec_, corpus_.is_bytes());
    for (const Task& task : tasks_)
        for (const char* const score : {"task_acc/", "task_acc_norm/"})
            known.push_back(score + task.name);
    return known;
}

bool Trainer::judge() {
    const bool best = judge_.decide(state_, *world_);
    if (best && spec_.checkpoint_keep_best && saver_) saver_->best(state_.step);
    return best;
}

bool Trainer::evaluate_tasks(bool last) {
    if (tasks_.empty()) return true;
    activity_ = Activity::Validation;
    AnswerPass pass{.vocab = model_.config.vocab,
                    .length_most = spec_.seq_length,
                    .batch_tokens = spec_.micro_batch_size * spec_.seq_length,
                    .replicas = dp_->size(),
                    .replica = dp_->rank()};
    pass.log_probs = [this](std::span<const Microbatch> batch) { return step_->log_probs(batch); };
    pass.ends = [&] { return measurement_ends(last); };
    pass.sum = [this](const at::Tensor& values) { sum_over(*dp_, values, {Site::Evaluation}); };
    std::vector<TaskScore> scores;
    swap_for_evaluation();
    for (const Task& task : tasks_) {
        auto score = score_task(task, *model_.tokenizer, pass);
        if (!score) break;
        scores.push_back(*std::move(score));
    }
    swap_for_evaluation();
    if (scores.size() < tasks_.size()) return false;
    OrderedJson row = {{"step", state_.step}};
    for (const TaskScore& score : scores) {
        row["task_acc/" + score.name] = score.acc;
        row["task_acc_norm/" + score.name] = score.acc_norm;
        if (!writes()) continue;
        std::printf("step %lld  task %s: acc %.4f, acc_norm %.4f, %lld question%s\n",
                    static_cast<long long>(state_.step), score.name.c_str(), score.acc,
                    score.acc_norm, static_cast<long long>(score.questions),
                    score.questions == 1 ? "" : "s");
    }
    judge_.add(row);
    if (!writes()) return true;
    metrics_->append(row);
    const OrderedJson json = {
        {"schema", "roll.eval/1"}, {"step", state_.step}, {"tasks", scores_json(scores, false)}};
    need(write_file_atomically(fs::path(launch_.output) / "eval.json", json.dump(1) + "\n"));
    return true;
}

// Measures the validation loss with the weights rounded as in the export, and then restores the
// weights. Runs after the last checkpoint, because no training follows.
void Trainer::measure_export() {
    const std::vector<const ValidSet*> sets = validation_.due({.last = true});
    const std::optional<at::ScalarType> dtype = export_rounds_to(spec_);
    const bool exports_other = spec_.export_best && state_.best_step != state_.step;
    if (sets.empty() || !dtype || exports_other) return;
    const bool averaged = spec_.export_averaged;
    if (averaged) step_->swap_average();
    std::vector<at::Tensor> kept;
    for (Chunk& chunk : step_->chunks()) {
        const at::Tensor& weight = chunk.parameters().flat_weight;
        kept.push_back(weight.clone());
        weight.copy_(weight.to(*dtype));
    }
    const auto never = [this] { return measurement_ends(/*last=*/true); };
    const ValidResult result =
        validation_.run({sets.front()}, *step_, spec_, batch_rules(), place().dp_rank, never)
            ->front();
    for (std::size_t i = 0; i < kept.size(); ++i)
        step_->chunks()[i].parameters().flat_weight.copy_(kept[i]);
    if (averaged) step_->swap_average();
    if (!writes()) return;
    metrics_->append({{"step", state_.step}, {"export_valid_loss", result.loss}});
    std::printf(
        "step %lld  held-out, with weights %srounded as in the export: loss %.6f (%+.2g compared "
        "with "
        "the last validation)\n",
        static_cast<long long>(state_.step), averaged ? "averaged and " : "", result.loss,
        result.loss - state_.valid_loss.value_or(result.loss));
}

}  // namespace roll::train
