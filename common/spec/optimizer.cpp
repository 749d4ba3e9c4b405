#include "common/spec/optimizer.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace roll::spec {
namespace {

constexpr double kMuonMomentum = 0.95;

OptimizerKind kind_named(std::string_view name) {
    for (const auto& [known, kind] : kOptimizerKinds)
        if (known == name) return kind;
    return OptimizerKind::AdamW;
}

// A key that only some kinds of optimizers have, and these kinds.
struct KeyOfKinds {
    const char* key;
    std::vector<OptimizerKind> kinds;
};

const std::vector<KeyOfKinds>& keys_of_kinds() {
    using enum OptimizerKind;
    static const std::vector<KeyOfKinds> kKeys{
        {"momentum", {Sgd, Muon}},        {"nesterov", {Sgd, Muon}},
        {"update_scale", {Muon}},         {"ns_steps", {Muon}},
        {"clip_threshold", {Adafactor}},  {"decay_rate", {Adafactor}},
        {"scale_parameter", {Adafactor}}, {"relative_step", {Adafactor}},
        {"warmup_init", {Adafactor}}};
    return kKeys;
}

std::string listed(const std::vector<OptimizerKind>& kinds) {
    std::string list;
    for (const OptimizerKind kind : kinds)
        list += (list.empty() ? "" : ", ") + std::string(name_of(kind));
    return list;
}

// Returns the globs of a group's pattern. The character | separates them.
std::vector<std::string> globs_of(const std::string& match) {
    std::vector<std::string> globs(1);
    for (const char c : match)
        if (c == '|')
            globs.emplace_back();
        else
            globs.back() += c;
    return globs;
}

void check_group(const Json& group, const std::string& path, std::vector<Problem>& problems) {
    const auto says = [&](const char* key) { return group.contains(key); };
    if (says("lr") && says("lr_scale"))
        problems.push_back(
            {path + ".lr_scale", "cannot be used with lr; remove one of these two keys"});
    if (!says("lr") && !says("lr_scale") && !says("weight_decay"))
        problems.push_back(
            {path, "sets nothing; allowed: match, and at least one of lr, lr_scale, weight_decay"});
    const Json match = group.value("match", Json());
    if (!match.is_string()) return;
    const std::vector<std::string> globs = globs_of(match.get<std::string>());
    if (std::ranges::find(globs, "") != globs.end())
        problems.push_back({path + ".match",
                            fmt::format("is {}, which has an empty pattern; allowed: patterns for "
                                        "the native names of parameters, separated by |",
                                        match.dump())});
}

}  // namespace

std::string_view name_of(OptimizerKind kind) {
    return kOptimizerKinds[static_cast<std::size_t>(kind)].first;
}

Result<void> read_update_rule(const Json& json, OptimizerSpec& optimizer) {
    JsonReader reader(json, "train.optimizer");
    const auto kind = reader.get_or<std::string>("kind", "adamw");
    optimizer.kind = kind_named(kind);
    if (name_of(optimizer.kind) != kind)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("train.optimizer.kind {} is not supported yet", kind));
    const bool is_muon = optimizer.kind == OptimizerKind::Muon;
    optimizer.momentum = reader.get_or("momentum", is_muon ? kMuonMomentum : 0);
    optimizer.nesterov = reader.get_or("nesterov", is_muon);
    optimizer.ns_steps = reader.get_or("ns_steps", optimizer.ns_steps);
    AdafactorSpec& factored = optimizer.adafactor;
    factored.clip_threshold = reader.get_or("clip_threshold", factored.clip_threshold);
    factored.decay_rate = reader.get_or("decay_rate", factored.decay_rate);
    factored.scale_parameter = reader.get_or("scale_parameter", factored.scale_parameter);
    factored.relative_step = reader.get_or("relative_step", factored.relative_step);
    factored.warmup_init = reader.get_or("warmup_init", factored.warmup_init);
    if (reader.get_or<std::string>("update_scale", "original") == "match_rms_adamw")
        optimizer.update_scale = UpdateScale::MatchRmsAdamW;
    const Json& groups = reader.raw("groups");
    for (const Json& entry : groups) {
        JsonReader one(entry, "train.optimizer.groups");
        ParameterGroup group{.globs = globs_of(one.get<std::string>("match")),
                             .lr = std::nullopt,
                             .weight_decay = std::nullopt};
        if (one.has("lr")) group.lr = one.get<double>("lr");
        group.lr_scale = one.get_or("lr_scale", group.lr_scale);
        if (one.has("weight_decay")) group.weight_decay = one.get<double>("weight_decay");
        ROLL_TRY_VOID(one.finish_lenient());
        optimizer.groups.push_back(std::move(group));
    }
    return reader.finish_lenient();
}

std::vector<Problem> optimizer_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json::json_pointer here("/train/optimizer");
    const Json optimizer = document.contains(here) ? document[here] : Json();
    if (!optimizer.is_object()) return problems;
    const Json named = optimizer.value("kind", Json("adamw"));
    if (!named.is_string()) return problems;
    const OptimizerKind kind = kind_named(named.get<std::string>());
    for (const KeyOfKinds& one : keys_of_kinds())
        if (optimizer.contains(one.key) && std::ranges::find(one.kinds, kind) == one.kinds.end())
            problems.push_back({fmt::format("train.optimizer.{}", one.key),
                                fmt::format("is {}, but kind {} has no {}; remove it, or use kind "
                                            "{}",
                                            optimizer[one.key].dump(), name_of(kind), one.key,
                                            listed(one.kinds))});
    const Json momentum = optimizer.value("momentum", Json(0));
    if (kind == OptimizerKind::Sgd && optimizer.value("nesterov", Json()) == true && momentum == 0)
        problems.push_back({"train.optimizer.nesterov",
                            "is true, but momentum is 0; allowed: false, or set momentum"});
    if (optimizer.value("warmup_init", Json()) == true &&
        optimizer.value("relative_step", Json()) != true)
        problems.push_back({"train.optimizer.warmup_init",
                            "is true, but relative_step is false; allowed: false, or set "
                            "relative_step to true"});
    const Json groups = optimizer.value("groups", Json());
    for (std::size_t i = 0; groups.is_array() && i < groups.size(); ++i)
        if (groups[i].is_object())
            check_group(groups[i], fmt::format("train.optimizer.groups[{}]", i), problems);
    return problems;
}

}  // namespace roll::spec
