#include "worker/train/plan_report.hpp"

#include <cstdio>

#include "worker/plan/cost.hpp"
#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/failure.hpp"
#include "worker/train/launch_checks.hpp"
#include "worker/train/model_setup.hpp"

namespace roll::train {
namespace {

OrderedJson memory_json(const plan::MemoryBytes& bytes) {
    return {{"weights", bytes.weights},
            {"gradients", bytes.gradients},
            {"optimizer_moments", bytes.moments},
            {"activations", bytes.activations},
            {"logits", bytes.transient},
            {"checkpoint_snapshot", bytes.snapshot},
            {"total", bytes.total()}};
}

OrderedJson ranks_json(const spec::TrainSpec& spec) {
    OrderedJson ranks = OrderedJson::array();
    for (int rank = 0; rank < spec.parallel.dp; ++rank)
        ranks.push_back({{"rank", rank}, {"dp", rank}, {"tp", 0}, {"pp", 0}, {"cp", 0}});
    return ranks;
}

std::string mib(const OrderedJson& bytes) {
    char text[64];
    std::snprintf(text, sizeof text, "%.1f MiB", bytes.get<double>() / (1 << 20));
    return text;
}

}  // namespace

OrderedJson plan_json(const spec::TrainSpec& spec) {
    check_spec(spec);
    const spec::ModelConfig model = setup_model(spec, {}).config;
    const auto schedule = plan::one_forward_one_backward(1, static_cast<int>(spec.microbatches()));
    const plan::ScheduleReport report = need(plan::check(schedule));
    const plan::FlopsPerToken flops = plan::flops_per_token(model, spec.seq_length);
    const plan::CheckpointBytes disk = plan::checkpoint_bytes(model, spec.precision);
    OrderedJson json;
    json["schema"] = "roll.plan/1";
    json["name"] = spec.name;
    json["family"] = model.family;
    json["parameters"] = plan::parameter_count(model);
    json["mesh"] = {{"world_size", spec.parallel.dp},
                    {"dp", spec.parallel.dp},
                    {"tp", 1},
                    {"pp", 1},
                    {"vpp", 1},
                    {"cp", 1},
                    {"ep", 1}};
    json["ranks"] = ranks_json(spec);
    json["stages"] = OrderedJson::array(
        {{{"stage", 0}, {"layers", {0, model.layers}}, {"embedding", true}, {"loss", true}}});
    json["pipeline"] = {{"microbatches", schedule.microbatches},
                        {"live_max", report.live_max},
                        {"bubble", report.bubble},
                        {"table", plan::to_string(schedule, report)}};
    json["tokens_per_step"] = spec.global_batch_size * spec.seq_length;
    json["flops_per_token"] = {{"causal", flops.causal}, {"full", flops.full}};
    json["memory_per_rank_bytes"] =
        memory_json(plan::memory_bytes(model, spec, report.live_max.front()));
    json["checkpoint_bytes"] = {{"weights", disk.weights}, {"optimizer", disk.optimizer}};
    return json;
}

std::string plan_text(const OrderedJson& p) {
    const OrderedJson &memory = p["memory_per_rank_bytes"], &disk = p["checkpoint_bytes"];
    std::string text = p["name"].get<std::string>() + ": " + p["family"].get<std::string>() + ", " +
                       p["parameters"].dump() + " parameters\n";
    text += "mesh        dp " + p["mesh"]["dp"].dump() +
            " x pp 1 x cp 1 x tp 1 = " + p["mesh"]["world_size"].dump() + " ranks\n";
    for (const auto& stage : p["stages"])
        text += "stage " + stage["stage"].dump() + "     layers " + stage["layers"][0].dump() +
                " to " + stage["layers"][1].dump() + ", embedding, loss\n";
    text += "a step      " + p["tokens_per_step"].dump() + " tokens, " +
            p["pipeline"]["microbatches"].dump() + " micro-batches a rank, bubble " +
            p["pipeline"]["bubble"].dump() + "\n";
    text += "arithmetic  " + p["flops_per_token"]["causal"].dump() +
            " FLOP a token (causal attention), " + p["flops_per_token"]["full"].dump() +
            " (full)\n";
    text += "memory      " + mib(memory["total"]) + " a rank:";
    for (const auto& [name, bytes] : memory.items())
        if (name != "total") text += " " + name + " " + mib(bytes) + ",";
    text.back() = '\n';
    text += "checkpoint  " + mib(disk["weights"]) + " weights, " + mib(disk["optimizer"]) +
            " optimizer\npipeline\n" + p["pipeline"]["table"].get<std::string>();
    return text;
}

}  // namespace roll::train
