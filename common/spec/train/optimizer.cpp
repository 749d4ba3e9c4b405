#include "common/spec/train/optimizer.hpp"

#include <fmt/format.h>

namespace roll::spec {
namespace {

constexpr double kMuonMomentum = 0.95;

}  // namespace

std::string_view name_of(OptimizerKind kind) {
    return kOptimizerKinds[static_cast<std::size_t>(kind)].first;
}

Result<void> read_update_rule(const Json& json, OptimizerSpec& optimizer) {
    JsonReader reader(json, "train.optimizer");
    const auto kind = reader.get_or<std::string>("kind", "adamw");
    optimizer.kind = optimizer_named(kind);
    if (name_of(optimizer.kind) != kind)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("train.optimizer.kind {} needs a newer Roll on this machine", kind));
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

OptimizerKind optimizer_named(std::string_view name) {
    for (const auto& [known, kind] : kOptimizerKinds)
        if (known == name) return kind;
    return OptimizerKind::AdamW;
}

std::vector<std::string> globs_of(const std::string& match) {
    std::vector<std::string> globs(1);
    for (const char c : match)
        if (c == '|')
            globs.emplace_back();
        else
            globs.back() += c;
    return globs;
}

}  // namespace roll::spec
