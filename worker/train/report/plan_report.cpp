#include "worker/train/report/plan_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "worker/plan/cost.hpp"
#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/report/peak.hpp"
#include "worker/train/report/step_report.hpp"

namespace roll::train {
namespace {

constexpr double kMfuAssumed = 0.5;

OrderedJson memory_json(const plan::MemoryBytes& bytes) {
    return {{"weights", bytes.weights},
            {"main_weights", bytes.main_weights},
            {"gradients", bytes.gradients},
            {"optimizer_moments", bytes.moments},
            {"activations", bytes.activations},
            {"workspace", bytes.workspace},
            {"checkpoint_snapshot", bytes.snapshot},
            {"program", bytes.program},
            {"total", bytes.total()}};
}

OrderedJson ranks_json(const spec::TrainSpec& spec) {
    OrderedJson ranks = OrderedJson::array();
    for (int rank = 0; rank < spec.parallel.dp; ++rank)
        ranks.push_back({{"rank", rank}, {"dp", rank}, {"tp", 0}, {"pp", 0}, {"cp", 0}});
    return ranks;
}

// Returns a number as text, with the largest unit in which it is at least 1: "458 MiB", "5.7 M".
std::string scaled(double value, double step, std::initializer_list<const char*> units) {
    auto unit = units.begin();
    for (; value >= step && unit + 1 != units.end(); ++unit) value /= step;
    char text[64];
    std::snprintf(text, sizeof text, value < 100 ? "%.3g %s" : "%.0f %s", value, *unit);
    return text;
}

std::string bytes_text(const OrderedJson& bytes) {
    return scaled(bytes.get<double>(), 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

std::string flop_text(double flop) {
    return scaled(flop, 1000,
                  {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"});
}

// Returns a number as text with commas: "5,704,704".
std::string count_text(const OrderedJson& count) {
    const std::string digits = count.dump();
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

// Returns "layers 0 to 3", "layer 0" or "no layers". `range` is a half-open range of layers.
std::string layers_text(const OrderedJson& range) {
    const auto begin = range[0].get<std::int64_t>(), end = range[1].get<std::int64_t>();
    if (begin == end) return "no layers";
    if (begin + 1 == end) return "layer " + std::to_string(begin);
    return "layers " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

std::string memory_text(const OrderedJson& memory) {
    std::string text = bytes_text(memory["total"]) + " a rank" +
                       (memory["program"] == 0 ? ", without CUDA's own memory:" : ":");
    for (const auto& [name, bytes] : memory.items()) {
        if (name == "total" || bytes == 0) continue;
        std::string words = name;
        std::replace(words.begin(), words.end(), '_', ' ');
        text += " " + words + " " + bytes_text(bytes) + ",";
    }
    text.pop_back();
    return text;
}

// Returns the estimated time of the job. On a GPU it is null unless train.peak_tflops is set,
// because this machine's processor does not predict a GPU's speed.
OrderedJson time_json(const spec::TrainSpec& spec, double flop, bool on_gpu) {
    OrderedJson time{{"mfu_assumed", kMfuAssumed}};
    if (on_gpu && spec.peak_tflops == 0) {
        time["peak_tflops_per_rank"] = time["seconds"] = nullptr;
        return time;
    }
    const double peak = spec.peak_tflops > 0 ? spec.peak_tflops * 1e12
                                             : measure_peak_flops(dtype_of(spec.precision));
    time["peak_tflops_per_rank"] = peak / 1e12;
    time["seconds"] = flop / (kMfuAssumed * peak * spec.parallel.dp);
    return time;
}

std::string time_text(const OrderedJson& time, const OrderedJson& ranks) {
    if (time["seconds"].is_null())
        return "unknown: set train.peak_tflops to the TFLOP/s of one of these GPUs in this "
               "precision, from its data sheet";
    return duration_text(time["seconds"]) + " if each of " + ranks.dump() +
           " ranks reaches half of " +
           scaled(1e12 * time["peak_tflops_per_rank"].get<double>(), 1000,
                  {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"}) +
           " (train.peak_tflops, or a matrix product measured on this machine)";
}

}  // namespace

OrderedJson plan_json(const spec::TrainSpec& spec, bool on_gpu) {
    check_spec(spec, on_gpu);
    const spec::ModelConfig model = setup_model(spec, {}).config;
    const auto schedule = plan::one_forward_one_backward(1, static_cast<int>(spec.microbatches()));
    const plan::ScheduleReport report = need(plan::check(schedule));
    const plan::FlopsPerToken flops =
        plan::flops_per_token(model, spec.seq_length, frozen_factors(spec, model));
    const std::int64_t frozen =
        count_frozen(spec.model.freeze, parameter_specs(model, split_layers(model, 0, 1)));
    const plan::CheckpointBytes disk = plan::checkpoint_bytes(model, spec.precision, frozen);
    const plan::MemoryBytes memory =
        plan::memory_bytes(model, spec, {report.live_max.front(), frozen, on_gpu});
    OrderedJson json;
    json["schema"] = "roll.plan/1";
    json["name"] = spec.name;
    json["family"] = model.family;
    json["parameters"] = plan::parameter_count(model);
    json["frozen_parameters"] = frozen;
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
    json["steps"] = spec.steps;
    json["tokens_per_step"] = spec.global_batch_size * spec.seq_length;
    json["flops_per_token"] = {{"causal", flops.causal}, {"full", flops.full}};
    json["memory_per_rank_bytes"] = memory_json(memory);
    // A ring all-reduce sends almost twice the bytes that it sums. It sums the gradients of trained
    // parameters, which are as large as one of the two moments.
    const double dp = spec.parallel.dp;
    json["communication_bytes_per_step"] = {
        {"gradients", std::llround((dp - 1) / dp * static_cast<double>(memory.moments))}};
    const double flop = flops.causal * static_cast<double>(spec.global_batch_size) *
                        static_cast<double>(spec.seq_length * spec.steps);
    json["time"] = time_json(spec, flop, on_gpu);
    json["checkpoint_bytes"] = {{"weights", disk.weights}, {"optimizer", disk.optimizer}};
    return json;
}

std::string plan_text(const OrderedJson& p) {
    const OrderedJson &mesh = p["mesh"], &disk = p["checkpoint_bytes"];
    const OrderedJson &flops = p["flops_per_token"], &pipeline = p["pipeline"];
    const auto tokens = p["tokens_per_step"].get<double>(), steps = p["steps"].get<double>();
    const auto causal = flops["causal"].get<double>();
    std::string text = p["name"].get<std::string>() + ": " + p["family"].get<std::string>() + ", " +
                       count_text(p["parameters"]) + " parameters";
    if (p["frozen_parameters"] != 0)
        text += ", " + count_text(p["frozen_parameters"]) + " of them frozen";
    text += "\n";
    text += "mesh        dp " + mesh["dp"].dump() +
            " x pp 1 x cp 1 x tp 1 = " + mesh["world_size"].dump() + " ranks\n";
    for (const auto& stage : p["stages"])
        text += "stage " + stage["stage"].dump() + "     " + layers_text(stage["layers"]) +
                ", embedding, loss\n";
    text += "a step      " + count_text(p["tokens_per_step"]) + " tokens, " +
            pipeline["microbatches"].dump() + " micro-batches per rank, " +
            flop_text(causal * tokens) + ", bubble " + pipeline["bubble"].dump() + "\n";
    text +=
        "the run     " + count_text(p["steps"]) + " steps, " +
        scaled(steps * tokens, 1000, {"tokens", "k tokens", "M tokens", "G tokens", "T tokens"}) +
        ", " + flop_text(causal * tokens * steps) + "\n";
    text += "arithmetic  " + flop_text(causal) + " a token (causal attention), " +
            flop_text(flops["full"].get<double>()) + " (full)\n";
    text += "time        " + time_text(p["time"], mesh["world_size"]) + "\n";
    text += "network     gradients " + bytes_text(p["communication_bytes_per_step"]["gradients"]) +
            " per rank and step\n";
    text += "memory      " + memory_text(p["memory_per_rank_bytes"]) + "\n";
    text += "checkpoint  weights " + bytes_text(disk["weights"]) + ", optimizer " +
            bytes_text(disk["optimizer"]) + "\npipeline\n" + pipeline["table"].get<std::string>();
    return text;
}

}  // namespace roll::train
