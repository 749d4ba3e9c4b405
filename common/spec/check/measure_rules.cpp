// Rules for what a training job measures: the validation, the evaluation and the sampled texts.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/preference.hpp"

namespace roll::spec {
namespace {

bool holds_nothing_out(const Json& document) {
    const Json valid = key_at(document, "/data/valid");
    return valid.is_object() ? valid.empty() : valid == 0;
}

bool is_task_metric(const std::string& metric) { return metric.starts_with("task_"); }

std::string text_at(const Json& document, const char* pointer) {
    const Json value = key_at(document, pointer);
    return value.is_string() ? value.get<std::string>() : std::string();
}

// Returns the problem of a metric's name; empty if the job may measure the metric. The names of the
// tasks and all metrics of preferences are known only to the ranks, which check them.
std::string unmeasured(const Json& document, const std::string& metric) {
    if (metric.empty()) return {};
    if (is_task_metric(metric)) {
        if (metric.starts_with("task_acc/") || metric.starts_with("task_acc_norm/")) return {};
        return fmt::format("is {}; allowed for a task: task_acc/TASK or task_acc_norm/TASK",
                           metric);
    }
    const Json objective = key_at(document, "/objective");
    if (is_preference(objective_name(objective))) {
        if (metric.starts_with("valid_")) return {};
        return fmt::format(
            "is {}, which this job does not measure; allowed: a metric that begins with valid_, "
            "such as valid_loss, or task_acc/TASK",
            metric);
    }
    std::vector<std::string> keys{"valid_loss", "valid_perplexity", "valid_bits_per_byte",
                                  "ngram2_bits_per_byte"};
    if (objective_name(objective) == "distill") keys.emplace_back("valid_teacher_kl");
    const std::string key = metric.substr(0, metric.find('/'));
    const Json valid = key_at(document, "/data/valid");
    const bool has_sets = valid.is_object() && !valid.empty();
    const bool names_set =
        key != metric && has_sets && valid.contains(metric.substr(key.size() + 1));
    if (std::ranges::find(keys, key) != keys.end() && (key == metric || names_set)) return {};
    const std::string sets =
        has_sets ? fmt::format(", each also with /SET (a set in data.valid, such as {}/{})",
                               keys[0], valid.begin().key())
                 : "";
    return fmt::format("is {}, which this job does not measure; allowed: {}{}, or task_acc/TASK",
                       metric, fmt::join(keys, ", "), sets);
}

void check_metric(const Json& document, const std::string& section,
                  std::vector<Problem>& problems) {
    const std::string metric = text_at(document, ("/train/" + section + "/metric").c_str());
    const std::string path = fmt::format("train.{}.metric", section);
    if (std::string problem = unmeasured(document, metric); !problem.empty())
        return problems.push_back({path, std::move(problem)});
    const Json tasks = key_at(document, "/train/evaluation/tasks");
    if (is_task_metric(metric) && (!tasks.is_array() || tasks.empty()))
        problems.push_back(
            {path, fmt::format("is {}, but train.evaluation.tasks names no task; set tasks, or "
                               "choose a metric of the validation, such as valid_loss",
                               metric)});
}

void check_early_stop(const Json& document, std::vector<Problem>& problems) {
    const auto patience = positive(document, "/train/early_stop/patience");
    if (!patience) return;
    const bool of_task = is_task_metric(text_at(document, "/train/early_stop/metric"));
    const auto refuse = [&](const std::string& why) {
        problems.push_back(
            {"train.early_stop.patience", fmt::format("is {}, but {}", *patience, why)});
    };
    if (!of_task && holds_nothing_out(document))
        return refuse("data.valid holds out no data; allowed: 0, or set data.valid");
    check_metric(document, "early_stop", problems);
    if (!of_task && !positive(document, "/train/valid_every"))
        refuse(
            "train.valid_every is 0, so nothing is validated during training; allowed: 0, or set "
            "train.valid_every");
    if (of_task && !positive(document, "/train/evaluation/every"))
        refuse(
            "train.evaluation.every is 0, so no task is measured during training; allowed: 0, or "
            "set train.evaluation.every");
}

void check_best_metric(const Json& document, std::vector<Problem>& problems) {
    const bool keeps = key_at(document, "/checkpoint/keep_best") == true;
    if (keeps && !is_task_metric(text_at(document, "/train/best/metric")) &&
        holds_nothing_out(document))
        problems.push_back({"checkpoint.keep_best",
                            "is true, but data.valid holds out no data; allowed: false, or set "
                            "data.valid"});
    else if (keeps)
        check_metric(document, "best", problems);
    if (keeps) return;
    if (key_at(document, "/export/of") == "best")
        problems.push_back({"export.of",
                            "is `best`, but checkpoint.keep_best is false; set export.of to "
                            "`last`, or checkpoint.keep_best to true"});
    if (key_at(document, "/train/best").is_object())
        problems.push_back({"train.best",
                            "selects the best checkpoint, but checkpoint.keep_best is false; "
                            "remove train.best, or set checkpoint.keep_best to true"});
}

}  // namespace

std::vector<Problem> measure_problems(const Json& document) {
    std::vector<Problem> problems;
    check_early_stop(document, problems);
    check_best_metric(document, problems);
    return problems;
}

std::vector<std::string> idle_warnings(const TrainSpec& spec) {
    std::vector<std::string> warnings;
    const bool validates = spec.data.valid_fraction > 0 || !spec.data.valid_files.empty() ||
                           (spec.data.split && (*spec.data.split)[1] > 0);
    if (spec.valid_every > 0 && !validates)
        warnings.push_back(fmt::format(
            "train.valid_every is {}, but has no effect, because data.valid holds out no data; set "
            "data.valid, or remove train.valid_every",
            spec.valid_every));
    const auto warn = [&](const char* section, std::int64_t every, const char* list,
                          const char* what) {
        warnings.push_back(
            fmt::format("train.{0}.every is {1}, but train.{0}.{2} is empty, so {3}; set {2}, or "
                        "remove train.{0}.every",
                        section, every, list, what));
    };
    if (spec.sample.every > 0 && spec.sample.prompts.empty())
        warn("sample", spec.sample.every, "prompts", "no text is sampled");
    if (spec.evaluation.every > 0 && spec.evaluation.tasks.empty())
        warn("evaluation", spec.evaluation.every, "tasks", "no task is measured");
    const OptimizerSpec& optimizer = spec.optimizer;
    if (optimizer.wsd_decay_steps > 0 && optimizer.schedule != LrSchedule::Wsd)
        warnings.push_back(
            fmt::format("train.optimizer.wsd_decay_steps is {}, but has no effect, because "
                        "train.optimizer.schedule is not wsd; set schedule to wsd, or remove "
                        "wsd_decay_steps",
                        optimizer.wsd_decay_steps));
    return warnings;
}

std::vector<Problem> fault_problems(const TrainSpec& spec, int ranks) {
    std::vector<Problem> problems;
    for (std::size_t i = 0; i < spec.faults.size(); ++i) {
        const FaultSpec& fault = spec.faults[i];
        const auto refuse = [&](const char* key, const std::string& message) {
            problems.push_back({fmt::format("train.faults[{}].{}", i, key), message});
        };
        if (fault.rank >= ranks)
            refuse("rank", fmt::format("is {}; allowed: 0 to {}, the ranks of the job", fault.rank,
                                       ranks - 1));
        if (spec.steps > 0 && fault.step > spec.steps)
            refuse("step", fmt::format("is {}; allowed: 1 to {}, the steps of the job "
                                       "(train.steps)",
                                       fault.step, spec.steps));
    }
    return problems;
}

}  // namespace roll::spec
