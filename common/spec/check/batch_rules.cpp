#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/batch_size.hpp"

namespace roll::spec {
namespace {

// Checks the batch sizes in train.batch_size_schedule. Adds a problem for each other key that
// cannot be combined with train.batch_size_schedule.
void check_batch_schedule(const Json& document, std::optional<std::int64_t> dp,
                          std::vector<Problem>& problems) {
    const Json schedule = key_at(document, "/train/batch_size_schedule");
    if (!schedule.is_string()) return;
    const auto refuse = [&](const std::string& message) {
        problems.push_back({"train.batch_size_schedule", message});
    };
    const auto phases = parse_batch_schedule(schedule.get<std::string>());
    if (!phases) return refuse(phases.error().message);
    const auto global = positive(document, "/train/global_batch_size");
    const auto micro = positive(document, "/train/micro_batch_size");
    const auto largest = std::ranges::max_element(*phases, {}, &BatchPhase::size)->size;
    if (global && *global != largest)
        refuse(
            fmt::format("has batches of up to {}, but train.global_batch_size is {}; set "
                        "train.global_batch_size to {}",
                        counted(largest, "sample"), *global, largest));
    for (const BatchPhase& phase : *phases)
        if (micro && dp && phase.size % (*micro * *dp) != 0)
            refuse(
                fmt::format("has batches of {}; allowed: multiples of micro_batch_size "
                            "{} x dp {} = {}",
                            counted(phase.size, "sample"), *micro, *dp, *micro * *dp));
    const Json data = document.value("data", Json::object());
    if (data.value("order", Json()) == "megatron" || data.contains("curriculum"))
        refuse(
            "cannot be used with data.order megatron or data.curriculum, which require that all "
            "steps have the same size");
}

// Checks that another grouping of the samples does not change the result of a step, except for
// rounding. train.balance and train.microbatch_limit group the samples of a step in another way.
void check_grouping(const Json& document, std::vector<Problem>& problems) {
    const Json train = document.value("train", Json());
    if (!train.is_object()) return;
    const auto is_given = [&](const char* key, const Json& off) {
        return train.contains(key) && train[key] != off;
    };
    const Json lora = train.value("lora", Json());
    const Json objective = document.value("objective", Json());
    const bool drops = lora.is_object() && lora.value("dropout", Json(0)) != 0;
    const bool noisy = objective.is_object() && objective.value("neftune_alpha", Json(0)) != 0;
    for (const auto& [key, off] : {std::pair{"balance", Json(false)}, {"microbatch_limit", "0"}}) {
        const std::string path = std::string("train.") + key;
        if (!is_given(key, off)) continue;
        if (train.value("normalize", Json()) == "microbatch")
            problems.push_back({path,
                                "cannot be used with train.normalize microbatch, because the loss "
                                "then depends on the micro-batches; set normalize to step"});
        if (drops || noisy)
            problems.push_back({path,
                                "cannot be used with dropout or neftune_alpha, because their "
                                "random numbers depend on the micro-batches"});
    }
}

// Checks that a pipeline has a schedule for every possible number of micro-batches. This number
// varies between steps if train.microbatch_limit splits micro-batches.
void check_splitting(const Json& document, std::vector<Problem>& problems) {
    const Json train = document.value("train", Json());
    const Json parallel = document.value("parallel", Json());
    if (!train.is_object() || !parallel.is_object() || parallel.value("pp", Json(1)) == 1) return;
    if (train.value("microbatch_limit", Json("0")) == "0") return;
    const auto refuse = [&](const std::string& key, const std::string& remedy) {
        problems.push_back({"train.microbatch_limit",
                            "cannot be used with parallel." + key +
                                " and pp > 1, because there may be no schedule for a step in "
                                "which micro-batches are split; " +
                                remedy});
    };
    if (parallel.value("activation_limit", Json("0")) != "0")
        refuse("activation_limit", "remove activation_limit");
    if (parallel.value("schedule", Json()) == "interleaved")
        refuse("schedule interleaved", "set schedule to auto");
    if (parallel.value("group", Json(0)) != 0) refuse("group", "remove group");
}

}  // namespace

std::vector<Problem> batch_problems(const Json& document, std::optional<std::int64_t> dp) {
    std::vector<Problem> problems;
    check_batch_schedule(document, dp, problems);
    check_grouping(document, problems);
    check_splitting(document, problems);
    return problems;
}

}  // namespace roll::spec
