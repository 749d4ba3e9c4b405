#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/model_source.hpp"

namespace roll::spec {
namespace {

// Checks that a job can continue the optimizer's state of the checkpoint in model.from.
void check_continued(const Json& document, std::vector<Problem>& problems) {
    const Json model = document.at("model");
    const auto refuse = [&](const char* other) {
        problems.push_back(
            {"model.optimizer",
             fmt::format("is true, but with {0} the job does not train the weights to which the "
                         "optimizer state in model.from belongs; remove model.optimizer or {0}",
                         other)});
    };
    if (model.contains("adapters")) refuse("model.adapters");
    if (document.contains(Json::json_pointer("/train/lora"))) refuse("train.lora");
    const Json kind = key_at(document, "/train/optimizer/kind");
    if (!kind.is_null() && kind != "adamw" && kind != "adam" && kind != "sgd")
        problems.push_back(
            {"model.optimizer", fmt::format("is true, but train.optimizer.kind is {}; allowed: the "
                                            "kinds adamw, adam and sgd, whose state has the shapes "
                                            "of the weights",
                                            kind.dump())});
}

}  // namespace

std::vector<Problem> model_source_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json model = document.value("model", Json());
    if (!model.is_object()) return problems;
    const bool continues = model.value("optimizer", Json()) == true;
    if (!model.contains("from")) {
        if (model.contains("adapters"))
            problems.push_back({"model.adapters",
                                "needs model.from, the directory of the model to which the "
                                "adapters belong"});
        if (continues)
            problems.push_back(
                {"model.optimizer", "needs model.from, the checkpoint with the optimizer's state"});
        return problems;
    }
    if (continues) check_continued(document, problems);
    constexpr std::array<std::string_view, 5> kOwn{"from", "freeze", "vocab_size", "adapters",
                                                   "optimizer"};
    const Json dropouts = overridden_of(model);
    for (const auto& [key, value] : model.items()) {
        if (std::ranges::find(kOwn, key) != kOwn.end() || dropouts.contains(key)) continue;
        problems.push_back(
            {"model." + key, "cannot be set with model.from, whose config determines it"});
    }
    return problems;
}

}  // namespace roll::spec
