#include "worker/train/report/plan_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "worker/plan/cost.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/plan/pipeline_print.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
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

OrderedJson ranks_json(const plan::Mesh& mesh) {
    OrderedJson ranks = OrderedJson::array();
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        const plan::Place place = mesh.place(rank);
        ranks.push_back({{"rank", rank},
                         {"dp", place.dp},
                         {"tp", place.tp},
                         {"pp", place.pp},
                         {"cp", place.cp}});
    }
    return ranks;
}

// The chunks of a model in the order of forward, and the costs of a rank of each stage.
struct Stages {
    std::vector<ChunkSpec> chunks = {};
    std::vector<std::int64_t> parameters = {};  // of each chunk, on one rank
    std::vector<plan::MemoryBytes> memory = {};
    std::int64_t tensor_bytes = 0;  // of the rank that sends the most
};

Stages stages_of(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                 const std::vector<int>& live_max, bool on_gpu) {
    const spec::ParallelSpec& p = spec.parallel;
    Stages stages{stage_chunks(model, stage_split(p))};
    for (ChunkSpec& chunk : stages.chunks) {
        chunk.tp = p.tp;
        stages.parameters.push_back(numel(parameter_specs(model, chunk)));
    }
    std::vector<ParameterSpec> whole = parameter_specs(model, whole_chunk(model));
    mark_frozen(whole, spec.model.freeze);
    for (int stage = 0; stage < p.pp; ++stage) {
        plan::StagePart part{.layers = 0,
                             .chunks = p.vpp,
                             .first = stage == 0,
                             .last = stage == p.pp - 1,
                             .frozen_of_model = numel(whole) - trainable_numel(whole),
                             .tp = p.tp};
        std::int64_t frozen = 0;
        for (int chunk = 0; chunk < p.vpp; ++chunk) {
            const ChunkSpec& held = stages.chunks[chunk * p.pp + stage];
            std::vector<ParameterSpec> specs = parameter_specs(model, held);
            mark_frozen(specs, spec.model.freeze);
            frozen += numel(specs) - trainable_numel(specs);
            part.layers += held.layer_end - held.layer_begin;
        }
        stages.memory.push_back(
            plan::memory_bytes(model, spec, {live_max[stage], frozen, on_gpu, part}));
        stages.tensor_bytes = std::max(stages.tensor_bytes, plan::tensor_bytes(model, spec, part));
    }
    return stages;
}

OrderedJson stages_json(const Stages& stages, int pp) {
    OrderedJson json = OrderedJson::array();
    for (int i = 0; i < std::ssize(stages.chunks); ++i) {
        const ChunkSpec& chunk = stages.chunks[i];
        json.push_back({{"stage", i % pp},
                        {"layers", {chunk.layer_begin, chunk.layer_end}},
                        {"embedding", chunk.pre},
                        {"loss", chunk.post},
                        {"parameters_per_rank", stages.parameters[static_cast<std::size_t>(i)]}});
        if (std::ssize(stages.chunks) > pp) json.back()["chunk"] = i / pp;
    }
    return json;
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

std::string stage_text(const OrderedJson& stage, const OrderedJson& tp) {
    std::string text = "stage " + stage["stage"].dump() + "     " + layers_text(stage["layers"]) +
                       (stage["embedding"].get<bool>() ? ", embedding" : "") +
                       (stage["loss"].get<bool>() ? ", loss" : "");
    if (tp != 1)
        text += "; " + count_text(stage["parameters_per_rank"]) + " parameters on each of " +
                tp.dump() + " ranks";
    return text + "\n";
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
OrderedJson time_json(const spec::TrainSpec& spec, int ranks, double flop, bool on_gpu) {
    OrderedJson time{{"mfu_assumed", kMfuAssumed}};
    if (on_gpu && spec.peak_tflops == 0) {
        time["peak_tflops_per_rank"] = time["seconds"] = nullptr;
        return time;
    }
    const double peak = spec.peak_tflops > 0 ? spec.peak_tflops * 1e12
                                             : measure_peak_flops(dtype_of(spec.precision));
    time["peak_tflops_per_rank"] = peak / 1e12;
    time["seconds"] = flop / (kMfuAssumed * peak * ranks);
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
    const spec::ParallelSpec& p = spec.parallel;
    const plan::Mesh mesh = need(plan::Mesh::make(p, p.dp * p.tp * p.pp));
    const JobPipeline pipeline = job_pipeline(spec, model);
    const plan::PipelineSchedule& schedule = pipeline.schedule;
    const plan::ScheduleReport report = need(plan::check(schedule, pipeline.costs));
    const plan::FlopsPerToken flops =
        plan::flops_per_token(model, spec.seq_length, frozen_factors(spec, model));
    const std::int64_t frozen =
        count_frozen(spec.model.freeze, parameter_specs(model, whole_chunk(model)));
    const plan::CheckpointBytes disk = plan::checkpoint_bytes(model, spec.precision, frozen);
    const Stages stages = stages_of(spec, model, report.live_max, on_gpu);
    const plan::MemoryBytes memory =
        *std::ranges::max_element(stages.memory, {}, &plan::MemoryBytes::total);
    OrderedJson json;
    json["schema"] = "roll.plan/1";
    json["name"] = spec.name;
    json["family"] = model.family;
    json["parameters"] = plan::parameter_count(model);
    json["frozen_parameters"] = frozen;
    json["mesh"] = {{"world_size", mesh.world_size()},
                    {"dp", p.dp},
                    {"tp", p.tp},
                    {"pp", p.pp},
                    {"vpp", p.vpp},
                    {"cp", p.cp},
                    {"ep", p.ep}};
    json["ranks"] = ranks_json(mesh);
    json["stages"] = stages_json(stages, p.pp);
    json["pipeline"] = {{"microbatches", schedule.microbatches},
                        {"live_max", report.live_max},
                        {"bubble", report.bubble},
                        {"table", plan::table_text(schedule, report)}};
    json["steps"] = spec.steps;
    json["tokens_per_step"] = spec.global_batch_size * spec.seq_length;
    json["flops_per_token"] = {{"causal", flops.causal}, {"full", flops.full}};
    json["memory_per_rank_bytes"] = memory_json(memory);
    for (const plan::MemoryBytes& bytes : stages.memory)
        if (p.pp > 1) json["memory_per_stage_bytes"].push_back(memory_json(bytes));
    // A ring all-reduce sends almost twice the bytes that it sums. It sums the gradients of trained
    // parameters, which are as large as one of the two moments.
    const double dp = p.dp;
    json["communication_bytes_per_step"] = {
        {"gradients", std::llround((dp - 1) / dp * static_cast<double>(memory.moments))}};
    // A stage between two others sends and receives activations, and their gradients. Each
    // tensor-parallel rank sends all rows.
    const std::int64_t rows = spec.micro_batch_size * spec.seq_length * spec.microbatches();
    const std::int64_t edges = p.pp == 1 ? 0 : std::ssize(stages.chunks) - 1;
    if (edges > 0)
        json["communication_bytes_per_step"]["activations"] =
            2 * rows * model.hidden * plan::element_bytes(spec.precision) * edges * p.tp;
    if (p.tp > 1) json["communication_bytes_per_step"]["tensor"] = stages.tensor_bytes;
    const double flop = flops.causal * static_cast<double>(spec.global_batch_size) *
                        static_cast<double>(spec.seq_length * spec.steps);
    json["time"] = time_json(spec, mesh.world_size(), flop, on_gpu);
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
    text += "mesh        dp " + mesh["dp"].dump() + " x pp " + mesh["pp"].dump() + " x cp 1 x tp " +
            mesh["tp"].dump() + " = " + mesh["world_size"].dump() + " ranks\n";
    for (const auto& stage : p["stages"]) text += stage_text(stage, mesh["tp"]);
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
    const OrderedJson& sent = p["communication_bytes_per_step"];
    text += "network     gradients " + bytes_text(sent["gradients"]) + " per rank and step";
    if (sent.contains("activations"))
        text += ", activations " + bytes_text(sent["activations"]) + " per replica and step";
    if (sent.contains("tensor"))
        text +=
            ", between tensor-parallel ranks " + bytes_text(sent["tensor"]) + " per rank and step";
    text += "\n";
    if (!p.contains("memory_per_stage_bytes"))
        text += "memory      " + memory_text(p["memory_per_rank_bytes"]) + "\n";
    else
        for (std::size_t i = 0; i < p["memory_per_stage_bytes"].size(); ++i)
            text += "memory      stage " + std::to_string(i) + ": " +
                    memory_text(p["memory_per_stage_bytes"][i]) + "\n";
    text += "checkpoint  weights " + bytes_text(disk["weights"]) + ", optimizer " +
            bytes_text(disk["optimizer"]) + "\npipeline\n" + pipeline["table"].get<std::string>();
    return text;
}

}  // namespace roll::train
