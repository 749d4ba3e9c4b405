#include "common/spec/check/checkpoint_rules.hpp"

#include <string>

#include "common/spec/check/member.hpp"

namespace roll::spec {

std::vector<Problem> checkpoint_format_problems(const Json& document) {
    std::vector<Problem> problems;
    if (key_at(document, "/checkpoint/format") != "torch_dist") return problems;
    const auto refuse = [&](const std::string& why, const std::string& remedy) {
        problems.push_back({"checkpoint.format", "is torch_dist, which cannot hold " + why +
                                                     "; allowed: mca, or " + remedy});
    };
    const Json kind = key_at(document, "/train/optimizer/kind");
    if (kind.is_string() && kind != "adamw" && kind != "adam")
        refuse("the state of train.optimizer.kind " + kind.get<std::string>(),
               "set kind to adamw or adam");
    if (key_at(document, "/train/ema").is_object())
        refuse("the average of train.ema", "remove train.ema");
    if (key_at(document, "/train/lora").is_object())
        refuse("the adapter of train.lora", "remove train.lora");
    if (const Json frozen = key_at(document, "/model/freeze"); frozen.is_array() && !frozen.empty())
        refuse("the optimizer state of only some weights, as in a job with model.freeze",
               "remove model.freeze");
    const Json objective = key_at(document, "/objective");
    if (objective == "reward" || key_at(document, "/objective/kind") == "reward")
        refuse("the output layer of a reward model", "choose another objective");
    const Json kept = key_at(document, "/checkpoint/keep_optimizer");
    if (kept.is_number_integer() && kept != 0)
        refuse("weights without their optimizer state, as in a job with checkpoint.keep_optimizer",
               "set keep_optimizer to 0");
    return problems;
}

std::vector<Problem> export_problems(const Json& document) {
    const Json exports = key_at(document, "/export/every");
    const Json saves = key_at(document, "/checkpoint/every");
    if (!exports.is_number_integer() || exports == 0 || (!saves.is_null() && saves != 0)) return {};
    return {{"export.every", "is " + exports.dump() +
                                 ", but checkpoint.every is 0, so no checkpoint is written during "
                                 "training; set checkpoint.every, or set export.every to 0"}};
}

std::string unsaved_warning(const TrainSpec& spec) {
    if (spec.checkpoint_every > 0) return {};
    // The steps of train.epochs are unknown until the data are read.
    const std::string end = spec.steps > 0 ? "step " + std::to_string(spec.steps) : "its last step";
    return "checkpoint.every is 0: if the job is killed before " + end +
           ", all its progress is lost";
}

}  // namespace roll::spec
