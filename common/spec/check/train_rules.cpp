#include "common/spec/check/train_rules.hpp"

#include <string>

#include <fmt/format.h>

#include "common/spec/train/loss_scale.hpp"

namespace roll::spec {
namespace {

// Reports what does not fit the kind of the fault with index `i`.
void check_fault(const Json& fault, std::size_t i, std::vector<Problem>& problems) {
    const Json kind = fault.value("kind", Json()), phase = fault.value("phase", Json());
    const auto refuse = [&](const char* key, const std::string& why) {
        problems.push_back({fmt::format("train.faults[{}].{}", i, key), why});
    };
    if (phase.is_string() && kind == "glitch" && phase != "reduce" && phase != "optimizer")
        refuse("phase", fmt::format("is {}, but a glitch changes a gradient before or after it is "
                                    "summed over the ranks; allowed: reduce or optimizer",
                                    phase.get<std::string>()));
    if (phase.is_string() && kind == "disk_full" && phase != "save")
        refuse("phase", fmt::format("is {}, but a full disk is noticed when a checkpoint is saved; "
                                    "allowed: save",
                                    phase.get<std::string>()));
    if (kind == "slow" && !fault.contains("ms"))
        refuse("ms",
               "is missing; kind slow needs the time in ms that the rank sleeps in each step");
    if (kind != "slow" && fault.contains("ms"))
        refuse("ms", "belongs to kind slow; remove ms, or set kind to slow");
}

}  // namespace

std::vector<Problem> bad_step_problems(const Json& document) {
    const Json train = document.value("train", Json());
    if (!train.is_object()) return {};
    std::vector<Problem> problems;
    if (train.contains("spike") && train.value("on_spike", Json("ignore")) == "ignore")
        problems.push_back({"train.spike",
                            "has no effect, because train.on_spike is ignore; remove spike, or set "
                            "on_spike to skip, rewind or stop"});
    const Json faults = train.value("faults", Json::array());
    for (std::size_t i = 0; faults.is_array() && i < faults.size(); ++i)
        if (faults[i].is_object()) check_fault(faults[i], i, problems);
    return problems;
}

std::vector<Problem> loss_scale_problems(const Json& document) {
    const Json train = document.value("train", Json());
    if (!train.is_object() || !train.contains("loss_scale")) return {};
    const Json precision = train.value("precision", Json("fp32"));
    if (precision != "fp16")
        return {{"train.loss_scale",
                 fmt::format("is only for precision fp16, but train.precision is {}; remove "
                             "loss_scale, or set precision: fp16",
                             precision.is_string() ? precision.get<std::string>() : "no text")}};
    const Json& scale = train["loss_scale"];
    const auto is_number = [&](const char* key) {
        return !scale.contains(key) || scale[key].is_number();
    };
    if (!scale.is_object() || !is_number("initial") || !is_number("min")) return {};
    const double initial = scale.value("initial", LossScaleSpec().initial);
    const double min = scale.value("min", LossScaleSpec().min);
    if (min <= initial) return {};
    return {
        {"train.loss_scale.min",
         fmt::format("is {:g}; allowed: at most loss_scale.initial, which is {:g}", min, initial)}};
}

std::vector<Problem> valid_set_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json data = document.value("data", Json());
    if (!data.is_object()) return problems;
    const Json valid = data.value("valid", Json());
    const Json sets = valid.is_object() ? valid : Json::object();
    const auto is_name = [](const std::string& name) {
        return !name.empty() && name.size() <= 64 &&
               name.find_first_not_of(
                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                   "0123456789._-") == std::string::npos;
    };
    int fractions = 0;
    std::string names;
    for (const auto& [name, set] : sets.items()) {
        names += (names.empty() ? "" : ", ") + name;
        if (!is_name(name))
            problems.push_back({"data.valid." + name,
                                "is not a valid name of a set; allowed: 1 to 64 letters, digits, "
                                "dots, dashes and underscores"});
        fractions += set.is_number();
    }
    if (fractions > 1)
        problems.push_back(
            {"data.valid",
             "gives more than one set as a fraction of the training files; allowed: at most one"});
    const std::string allowed = names.empty() ? "no value, because data.valid has no named sets"
                                              : fmt::format("a set in data.valid ({})", names);
    const Json train = document.value("train", Json());
    for (const char* key : {"valid_every_of", "valid_tokens_of"}) {
        const Json of = train.is_object() ? train.value(key, Json()) : Json();
        if (!of.is_object()) continue;
        for (const auto& [name, ignored] : of.items())
            if (!sets.contains(name))
                problems.push_back(
                    {fmt::format("train.{}.{}", key, name), "is not a set; allowed: " + allowed});
    }
    const Json track = data.value("track", Json());
    if (track.is_string() && !sets.contains(track.get<std::string>()))
        problems.push_back(
            {"data.track", fmt::format("is {}; allowed: {}", track.get<std::string>(), allowed)});
    return problems;
}

}  // namespace roll::spec
