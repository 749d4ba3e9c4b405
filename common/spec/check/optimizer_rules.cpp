#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/optimizer.hpp"

namespace roll::spec {
namespace {

// A key that only some kinds of optimizers have, and the kinds that have it.
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

std::vector<Problem> optimizer_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json optimizer = key_at(document, "/train/optimizer");
    if (!optimizer.is_object()) return problems;
    const Json named = optimizer.value("kind", Json("adamw"));
    if (!named.is_string()) return problems;
    const OptimizerKind kind = optimizer_named(named.get<std::string>());
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
    if (optimizer.contains("offload_fraction") && optimizer.value("offload", Json()) != "state")
        problems.push_back({"train.optimizer.offload_fraction",
                            fmt::format("is {}, but offload is none; remove it, or set offload to "
                                        "state",
                                        optimizer["offload_fraction"].dump())});
    const Json groups = optimizer.value("groups", Json());
    for (std::size_t i = 0; groups.is_array() && i < groups.size(); ++i)
        if (groups[i].is_object())
            check_group(groups[i], fmt::format("train.optimizer.groups[{}]", i), problems);
    return problems;
}

}  // namespace roll::spec
