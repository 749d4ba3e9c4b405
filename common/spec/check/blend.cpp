#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/preference.hpp"

namespace roll::spec {
namespace {

// Checks that a list has one weight for each training file, and that at least one weight is above
// 0.
void check_weights(const Json& weights, std::size_t files, const std::string& path,
                   std::vector<Problem>& problems) {
    if (!weights.is_array()) return;
    if (weights.size() != files)
        problems.push_back({path, fmt::format("has {}; allowed: {}, one for each file of "
                                              "data.train",
                                              counted(weights.size(), "weight"), files)});
    else if (std::all_of(weights.begin(), weights.end(), [](const Json& one) { return one == 0; }))
        problems.push_back({path, "has no weight above 0; allowed: at least one"});
}

void check_curriculum(const Json& curriculum, std::size_t files, std::vector<Problem>& problems) {
    std::int64_t before = -1;
    for (std::size_t i = 0; i < curriculum.size(); ++i) {
        const Json& phase = curriculum[i];
        if (!phase.is_object()) continue;
        const std::string path = fmt::format("data.curriculum[{}]", i);
        check_weights(phase.value("weights", Json()), files, path + ".weights", problems);
        const Json step = phase.value("step", Json());
        if (!step.is_number_integer()) continue;
        const auto begin = step.get<std::int64_t>();
        if (i == 0 ? begin != 0 : begin <= before)
            problems.push_back(
                {path + ".step",
                 fmt::format("is {}; allowed: {}", begin,
                             i == 0 ? "0, because training begins with the first phase"
                                    : fmt::format("more than {}", before))});
        before = begin;
    }
}

void check_megatron(const Json& document, std::vector<Problem>& problems) {
    const std::string objective = objective_name(key_at(document, "/objective"));
    if (objective != "pretrain")
        problems.push_back({"data.order", fmt::format("is megatron; allowed: `roll` with objective "
                                                      "\"{}\"",
                                                      objective)});
    if (!key_at(document, "/data/curriculum").is_null())
        problems.push_back(
            {"data.curriculum", "is not allowed with data.order megatron; use data.weights"});
    const Json seed = key_at(document, "/train/seed");
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    if (seed.is_number_integer() && seed.get<std::uint64_t>() > kMost)
        problems.push_back({"train.seed", fmt::format("is {}; allowed with data.order megatron: at "
                                                      "most {}",
                                                      seed.dump(), kMost)});
}

// Checks data.packing and data.truncate, which determine how documents are packed into sequences
// and how long documents are cut.
void check_rows(const Json& document, std::vector<Problem>& problems) {
    const Json given = key_at(document, "/objective"), packing = key_at(document, "/data/packing"),
               truncate = key_at(document, "/data/truncate");
    const std::string objective = objective_name(given);
    const bool packs = objective == "sft" || learns_completions(given);
    const auto refuse = [&](const char* key, const Json& value, const std::string& allowed) {
        if (value.is_string())
            problems.push_back(
                {std::string("data.") + key,
                 fmt::format("is {}; allowed: {}", value.get<std::string>(), allowed)});
    };
    const std::string with = fmt::format(" with objective \"{}\"", objective);
    if (!packing.is_null() && packing != "in_order" && !packs)
        refuse("packing", packing, "`in_order`" + with);
    if (truncate.is_null() || truncate == "end") return;
    if (!packs && !is_preference(objective))
        refuse("truncate", truncate,
               "`end`" + with + ", because this objective truncates no document");
    else if (packs && packing == "wrapped")
        refuse("truncate", truncate,
               "`end` with data.packing wrapped, because this packing truncates no document");
    else if (truncate == "split" && !packs)
        refuse("truncate", truncate, "`end`, `start`, `prompt`, `drop` or `error`" + with);
    else if (truncate == "prompt" && key_at(document, "/data/train_on") == "all")
        refuse("truncate", truncate,
               "a value other than `prompt` with data.train_on all, because documents then have no "
               "prompts");
}

}  // namespace

std::vector<Problem> blend_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json train = key_at(document, "/data/train"), weights = key_at(document, "/data/weights"),
               curriculum = key_at(document, "/data/curriculum"),
               split = key_at(document, "/data/split"), epochs = key_at(document, "/train/epochs");
    if (!train.is_array()) return problems;
    check_weights(weights, train.size(), "data.weights", problems);
    if (curriculum.is_array()) check_curriculum(curriculum, train.size(), problems);
    if (!weights.is_null() && !curriculum.is_null())
        problems.push_back(
            {"data.curriculum", "cannot be used with data.weights; remove one of these two keys"});
    const bool megatron = key_at(document, "/data/order") == "megatron";
    if (megatron) check_megatron(document, problems);
    if (!epochs.is_null() && (megatron || !weights.is_null() || !curriculum.is_null()))
        problems.push_back(
            {"train.epochs", fmt::format("is {}, but with {} training makes no whole passes over "
                                         "the files; use train.steps instead",
                                         epochs.dump(),
                                         megatron            ? "data.order megatron"
                                         : weights.is_null() ? "data.curriculum"
                                                             : "data.weights")});
    if (key_at(document, "/data/weigh") == "tokens" &&
        (megatron || (weights.is_null() && curriculum.is_null())))
        problems.push_back({"data.weigh",
                            "is tokens; allowed only with data.order roll and either data.weights "
                            "or data.curriculum"});
    check_rows(document, problems);
    if (!split.is_null() && !megatron)
        problems.push_back({"data.split",
                            "is only for data.order megatron; remove split, or set order to "
                            "megatron"});
    if (split.is_array() && split.size() > 3)
        problems.push_back(
            {"data.split", fmt::format("has {} shares; allowed: 3, for training, validation and "
                                       "test",
                                       split.size())});
    if (split.is_array() && !split.empty() && split[0] == 0)
        problems.push_back({"data.split", "gives training the share 0; allowed: more than 0"});
    return problems;
}

}  // namespace roll::spec
