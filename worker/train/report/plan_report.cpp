#include "worker/train/report/plan_report.hpp"

#include <algorithm>
#include <cstdio>

#include "common/counted.hpp"
#include "common/spec/check/tensor.hpp"
#include "worker/plan/cost.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/plan/pipeline_print.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/pipeline/job_cost.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/report/optimizer_report.hpp"
#include "worker/train/report/out_of_memory.hpp"
#include "worker/train/report/peak.hpp"
#include "worker/train/report/run_report.hpp"
#include "worker/train/report/step_report.hpp"
#include "worker/train/report/teacher_report.hpp"

namespace roll::train {
namespace {

constexpr double kMfuAssumed = 0.5;

// `teacher`: bytes of the teacher's weights. They are in memory only before the first step. At that
// time there are no gradients, moments, activations or copies for a checkpoint yet. The category
// `teacher` is the part of these bytes that exceeds the memory of a step.
OrderedJson memory_json(const plan::MemoryBytes& bytes, std::int64_t teacher) {
    OrderedJson json = {{"weights", bytes.weights},
                        {"main_weights", bytes.main_weights},
                        {"gradients", bytes.gradients},
                        {"optimizer_moments", bytes.moments},
                        {"activations", bytes.activations},
                        {"workspace", bytes.workspace},
                        {"checkpoint_snapshot", bytes.snapshot},
                        {"exchange_buffers", bytes.exchange},
                        {"program", bytes.program}};
    const std::int64_t before =
        bytes.program + bytes.weights + bytes.main_weights + bytes.workspace + teacher;
    const std::int64_t more = std::max<std::int64_t>(before - bytes.total(), 0);
    if (teacher > 0) json["teacher"] = more;
    json["total"] = bytes.total() + more;
    if (bytes.offloaded > 0) json["offloaded"] = bytes.offloaded;
    return json;
}

// Adds the memory of a rank, and of the ranks of each stage of a pipeline.
void add_memory(OrderedJson& json, const JobCost& job) {
    const std::int64_t teacher =
        json.contains("teacher") ? json["teacher"]["weight_bytes_per_rank"].get<std::int64_t>() : 0;
    std::vector<OrderedJson> stages;
    for (const plan::MemoryBytes& bytes : job.memory) stages.push_back(memory_json(bytes, teacher));
    json["memory_per_rank_bytes"] = *std::ranges::max_element(
        stages, {}, [](const OrderedJson& one) { return one["total"].get<std::int64_t>(); });
    if (stages.size() > 1) json["memory_per_stage_bytes"] = stages;
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

OrderedJson stages_json(const spec::ModelConfig& model, const JobCost& job) {
    const JobPipeline& pipeline = job.pipeline;
    OrderedJson json = OrderedJson::array();
    for (int i = 0; i < std::ssize(pipeline.chunks); ++i) {
        const ChunkSpec& chunk = pipeline.chunks[i];
        const plan::Home home = pipeline.schedule.home(i);
        const plan::Costs& costs = pipeline.costs[i];
        json.push_back({{"stage", home.rank},
                        {"layers", {chunk.layer_begin, chunk.layer_end}},
                        {"embedding", chunk.pre},
                        {"loss", chunk.post},
                        {"parameters_per_rank", numel(parameter_specs(model, chunk))}});
        if (pipeline.schedule.vp > 1) json.back()["chunk"] = home.chunk;
        json.back()["times"] = {{"forward", costs.forward},
                                {"backward_input", costs.backward_input},
                                {"backward_weight", costs.backward_weight}};
        json.back()["microbatch_bytes"] = {{"after_forward", costs.after_forward},
                                           {"after_backward_input", costs.after_backward},
                                           {"after_backward_weight", 0}};
    }
    return json;
}

OrderedJson recompute_json(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                           const plan::Recomputed& recompute, bool on_gpu) {
    OrderedJson json = {
        {"kind", spec::name_of(spec.parallel.recompute)},
        {"layers", plan::recomputed_text(recompute)},
        {"flops_per_token", plan::recompute_flops_per_token(model, spec, recompute)}};
    if (spec.parallel.memory_limit > 0) {
        json["memory_limit"] = spec.parallel.memory_limit;
        json["largest_micro_batch_size"] = largest_microbatch(spec, model, on_gpu);
    }
    return json;
}

// Returns the messages of one step between stages, with one entry per directed link.
OrderedJson links_json(const plan::ScheduleReport& report, std::int64_t message_bytes) {
    OrderedJson links = OrderedJson::array();
    for (const plan::LinkUse& link : report.links)
        links.push_back({{"from", link.from},
                         {"to", link.to},
                         {"payload", link.gradients ? "gradients" : "activations"},
                         {"messages", link.messages},
                         {"bytes", link.messages * message_bytes}});
    return links;
}

OrderedJson operations_json(const plan::PipelineSchedule& schedule,
                            const plan::ScheduleReport& report) {
    OrderedJson ranks = OrderedJson::array();
    for (int rank = 0; rank < schedule.pp; ++rank) {
        OrderedJson& ops = ranks.emplace_back(OrderedJson::array());
        for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i)
            ops.push_back({plan::to_string(schedule.ranks[rank][i]), report.starts[rank][i],
                           report.ends[rank][i]});
    }
    return ranks;
}

OrderedJson pipeline_json(const JobCost& job) {
    const plan::PipelineSchedule& schedule = job.pipeline.schedule;
    const plan::ScheduleReport& report = job.report;
    return {{"microbatches", schedule.microbatches},
            {"schedule", schedule.name},
            {"live_max", report.live_max},
            {"activation_bytes", report.peak_bytes},
            {"bubble", report.bubble},
            {"imbalance", report.imbalance},
            {"makespan", report.makespan},
            {"operations", operations_json(schedule, report)},
            {"table", plan::table_text(schedule, report)}};
}

std::string bytes_text(const OrderedJson& bytes) {
    return plan::bytes_text(bytes.get<std::int64_t>());
}

std::string flop_text(double flop) {
    return plan::scaled(flop, 1000,
                        {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"});
}

std::string count_text(const OrderedJson& count) {
    return plan::count_text(count.get<std::int64_t>());
}

// Returns the range [begin, end) of layers as text: "layers 0 to 3", "layer 0" or "no layers".
std::string layers_text(const OrderedJson& range) {
    const auto begin = range[0].get<std::int64_t>(), end = range[1].get<std::int64_t>();
    if (begin == end) return "no layers";
    if (begin + 1 == end) return "layer " + std::to_string(begin);
    return "layers " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

// Returns a share as text, in percent: "12.5 %".
std::string percent_text(const OrderedJson& share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g %%", 100 * share.get<double>());
    return text;
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
        if (name == "total" || name == "offloaded" || bytes == 0) continue;
        std::string words = name;
        std::replace(words.begin(), words.end(), '_', ' ');
        text += " " + words + " " + bytes_text(bytes) + ",";
    }
    text.pop_back();
    return text;
}

// Returns the line about the offloaded data of the rank with the most memory; empty: no data.
std::string offloaded_text(const OrderedJson& memory, const OrderedJson& kinds) {
    if (!memory.contains("offloaded")) return {};
    const std::string what = kinds["activations"] == false ? "the optimizer's state"
                             : kinds["state"] == false     ? "saved activations"
                                                           : "state and activations";
    return "offloaded   " + bytes_text(memory["offloaded"]) + " of " + what + " a rank: in " +
           (memory["program"] == 0 ? "pinned host memory" : "files on disk") + "\n";
}

// Returns the estimated duration of the job. On a GPU, this is null unless
// train.peak_tflops is set: the speed of this machine's processor says nothing about the
// speed of a GPU.
OrderedJson time_json(const spec::TrainSpec& spec, int ranks, double flop, bool on_gpu) {
    OrderedJson time{{"mfu_assumed", kMfuAssumed}};
    if (spec.steps == 0 || (on_gpu && spec.peak_tflops == 0)) {
        time["peak_tflops_per_rank"] = time["seconds"] = nullptr;
        return time;
    }
    const double peak = spec.peak_tflops > 0 ? spec.peak_tflops * 1e12
                                             : measure_peak_flops(dtype_of(spec.precision));
    time["peak_tflops_per_rank"] = peak / 1e12;
    time["seconds"] = flop / (kMfuAssumed * peak * ranks);
    return time;
}

// Returns the line of the report about the whole run.
std::string run_text(const OrderedJson& plan) {
    std::string text = "the run     ";
    const std::string epochs = plan.contains("epochs") ? epochs_text(plan["epochs"]) : "";
    if (plan["steps"].is_null())
        return text + epochs + "; the number of steps is computed when the text is tokenized\n";
    if (!epochs.empty()) text += epochs + " = ";
    const double tokens = plan["tokens_per_step"].get<double>() * plan["steps"].get<double>();
    const auto causal = plan["flops_per_token"]["causal"].get<double>();
    return text + count_text(plan["steps"]) + " " +
           noun_for(plan["steps"].get<std::int64_t>(), "step") + ", " +
           plan::scaled(tokens, 1000, {"tokens", "k tokens", "M tokens", "G tokens", "T tokens"}) +
           ", " + flop_text(causal * tokens) + "\n";
}

std::string time_text(const OrderedJson& time, const OrderedJson& ranks) {
    if (time["seconds"].is_null())
        return "unknown: set train.peak_tflops to the TFLOP/s of one GPU in the job's precision, "
               "from the GPU's data sheet";
    return duration_text(time["seconds"]) + " if " +
           (ranks == 1 ? "the rank" : "each of " + ranks.dump() + " ranks") + " reaches half of " +
           plan::scaled(1e12 * time["peak_tflops_per_rank"].get<double>(), 1000,
                        {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"}) +
           " (train.peak_tflops or, if it is not set, measured with a matrix product here)";
}

// Returns one line per chunk. If the list is very long, leaves out its middle.
std::string stages_text(const OrderedJson& stages, const OrderedJson& tp) {
    constexpr std::size_t kAll = 32, kEnds = 4;
    std::string text;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        if (stages.size() > kAll && i == kEnds) {
            i = stages.size() - kEnds;
            text += "            ... " + counted(stages.size() - 2 * kEnds, "chunk") +
                    " left out; --json has all ...\n";
        }
        text += stage_text(stages[i], tp);
    }
    return text;
}

std::string table_row(const char* name, std::initializer_list<std::string> cells) {
    char cell[32];
    std::snprintf(cell, sizeof cell, "%-8s", name);
    std::string row = cell;
    for (const std::string& text : cells) {
        std::snprintf(cell, sizeof cell, " %11s", text.c_str());
        row += cell;
    }
    return row + "\n";
}

// Returns the memory table, with one row per stage.
std::string memory_table(const OrderedJson& stages) {
    std::string text =
        table_row("memory", {"weights", "gradients", "optimizer", "activations", "other", "total"});
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const OrderedJson& bytes = stages[i];
        const auto of = [&](const char* name) { return bytes[name].get<std::int64_t>(); };
        const std::int64_t optimizer = of("main_weights") + of("optimizer_moments");
        const std::int64_t other =
            of("total") - of("weights") - of("gradients") - optimizer - of("activations");
        text += table_row(
            ("stage " + std::to_string(i)).c_str(),
            {bytes_text(bytes["weights"]), bytes_text(bytes["gradients"]), bytes_text(optimizer),
             bytes_text(bytes["activations"]), bytes_text(other), bytes_text(bytes["total"])});
    }
    return text;
}

// Returns the links as text. If the list is long, leaves out its middle.
std::string links_text(const OrderedJson& links) {
    constexpr std::size_t kAll = 16, kEnds = 4;
    std::string text = "links       bytes per replica and step\n";
    for (std::size_t i = 0; i < links.size(); ++i) {
        if (links.size() > kAll && i == kEnds) {
            i = links.size() - kEnds;
            text += "            ... " + counted(links.size() - 2 * kEnds, "link") +
                    " left out; --json has all ...\n";
        }
        text += "  stage " + links[i]["from"].dump() + " to " + links[i]["to"].dump() + "  " +
                links[i]["payload"].get<std::string>() + ": " +
                counted(links[i]["messages"].get<std::int64_t>(), "message") + ", " +
                bytes_text(links[i]["bytes"]) + "\n";
    }
    return text;
}

// Returns the line about the memory limit; empty if there is no limit.
std::string limit_text(const OrderedJson& recompute) {
    if (!recompute.contains("memory_limit")) return {};
    return "limit       " + bytes_text(recompute["memory_limit"]) +
           " a rank; the largest train.micro_batch_size that fits is " +
           recompute["largest_micro_batch_size"].dump() + "\n";
}

// Returns the line about recomputation. The line also has the largest size of a micro-batch's
// activations on any stage.
std::string recompute_text(const OrderedJson& plan) {
    const OrderedJson& recompute = plan["recompute"];
    std::int64_t forward = 0, backward = 0;
    for (const OrderedJson& stage : plan["stages"]) {
        const OrderedJson& bytes = stage["microbatch_bytes"];
        forward = std::max(forward, bytes["after_forward"].get<std::int64_t>());
        backward = std::max(backward, bytes["after_backward_input"].get<std::int64_t>());
    }
    const auto flops = recompute["flops_per_token"].get<double>();
    std::string text = "recompute   " + recompute["layers"].get<std::string>();
    if (flops > 0)
        text += ", " + flop_text(flops) + " a token more (" +
                percent_text(flops / plan["flops_per_token"]["causal"].get<double>()) + ")";
    return text + "; a micro-batch holds " + plan::bytes_text(forward) +
           " of activations after its forward (F), " + plan::bytes_text(backward) +
           " between the input half (B) and the weight half (W) of its backward, and none after "
           "W\n" +
           limit_text(recompute);
}

// Returns the lines about the schedule, with its table; empty if there is one stage.
std::string pipeline_text(const OrderedJson& plan) {
    const OrderedJson& pipeline = plan["pipeline"];
    if (plan["mesh"]["pp"] == 1) return {};
    char text[128];
    std::snprintf(text, sizeof text, ", busiest stage %.3g x the mean\n",
                  pipeline["imbalance"].get<double>());
    return "pipeline    " + pipeline["schedule"].get<std::string>() + ", bubble " +
           percent_text(pipeline["bubble"]) + " of the ideal time" + text +
           "            F: forward; B: input half of backward; W: weight half" +
           (plan["mesh"]["vpp"] > 1 ? "; ': chunk 1\n" : "\n") +
           pipeline["table"].get<std::string>();
}

}  // namespace

OrderedJson plan_json(const spec::TrainSpec& spec, bool on_gpu, int nodes) {
    check_spec(spec);
    const ModelSetup setup = setup_model(spec, {}, true);
    const spec::ModelConfig& model = setup.config;
    const spec::ParallelSpec& p = spec.parallel;
    const plan::Mesh mesh = need(plan::Mesh::make(p, p.replicas() * p.tp * p.pp));
    const JobCost job = job_cost(spec, model, on_gpu);
    const plan::FlopsPerToken flops =
        plan::flops_per_token(model, spec.seq_length, untrained_of(spec, model));
    std::vector<ParameterSpec> parameters = parameter_specs(model, whole_chunk(model));
    const std::int64_t frozen = count_frozen(spec.model.freeze, parameters);
    mark_frozen(parameters, spec.model.freeze);
    check_groups(spec.optimizer, parameters);
    plan::CheckpointBytes disk =
        plan::checkpoint_bytes(model, spec.precision, frozen, state_numel(spec, parameters));
    // the checkpoint also has the adapter's average
    if (model.lora.is_set() && spec.optimizer.ema.decay > 0) disk.weights *= 2;
    OrderedJson json;
    json["schema"] = "roll.plan/1";
    json["name"] = spec.name;
    json["family"] = model.family;
    json["parameters"] = plan::parameter_count(model);
    if (model.experts > 0)
        json["active_parameters"] =
            plan::parameter_count(model) - model.layers * model.unused_per_token();
    json["frozen_parameters"] = frozen;
    json["mesh"] = {{"world_size", mesh.world_size()},
                    {"dp", p.dp},
                    {"tp", p.tp},
                    {"sequence", p.sequence},
                    {"pp", p.pp},
                    {"vpp", p.vpp},
                    {"cp", p.cp},
                    {"ep", p.ep}};
    if (p.zero > 0) json["mesh"]["zero"] = p.zero;
    json["ranks"] = ranks_json(mesh);
    json["stages"] = stages_json(model, job);
    json["pipeline"] = pipeline_json(job);
    json["steps"] = spec.steps > 0 ? OrderedJson(spec.steps) : OrderedJson();
    if (spec.epochs > 0) json["epochs"] = spec.epochs;
    const std::int64_t per_step = plan::microbatch_tokens(spec) * spec.microbatches() * p.dp;
    json["tokens_per_step"] = per_step;
    json["flops_per_token"] = {{"causal", flops.causal}, {"full", flops.full}};
    json["recompute"] = recompute_json(spec, model, job.pipeline.recompute, on_gpu);
    json["optimizer"] = optimizer_json(spec, parameters);
    if (spec.loss.has_teacher()) json["teacher"] = teacher_json(spec, setup, on_gpu);
    json["offload"] = {{"state", spec.optimizer.offload > 0},
                       {"activations", spec.offloads_activations}};
    add_memory(json, job);
    OrderedJson sent = {{"gradients", job.sent.gradients}};
    if (p.zero > 0 && p.replicas() > 1) sent["weights"] = job.sent.weights;
    const OrderedJson links = links_json(job.report, job.sent.message);
    std::int64_t activations = 0;
    for (const OrderedJson& link : links) activations += link["bytes"].get<std::int64_t>();
    if (p.pp > 1) sent["activations"] = activations;
    if (p.tp > 1) sent["tensor"] = job.sent.tensor;
    if (p.cp > 1) sent["context"] = job.sent.context;
    json["communication_bytes_per_step"] = sent;
    if (p.pp > 1) json["links"] = links;
    const double flop = flops.causal * static_cast<double>(per_step * spec.steps);
    json["time"] = time_json(spec, mesh.world_size(), flop, on_gpu);
    json["checkpoint_bytes"] = {{"weights", disk.weights}, {"optimizer", disk.optimizer}};
    const std::string span = spec::tensor_span_warning(p, nodes, plan::bytes_text(job.sent.tensor));
    if (!span.empty()) json["warnings"] = {span};
    return json;
}

void add_time_limit(OrderedJson& plan, std::chrono::seconds limit) {
    OrderedJson& time = plan["time"];
    time["limit_seconds"] = limit.count();
    const double limit_s = std::chrono::duration<double>(limit).count();
    if (time["seconds"].is_null() || time["seconds"].get<double>() <= limit_s) return;
    plan["warnings"].push_back("the job needs about " + duration_text(time["seconds"]) +
                               ", but the time limit of an attempt (resources.time) is " +
                               duration_text(time["limit_seconds"]));
}

std::string plan_text(const OrderedJson& p) {
    const OrderedJson &mesh = p["mesh"], &disk = p["checkpoint_bytes"];
    const OrderedJson &flops = p["flops_per_token"], &pipeline = p["pipeline"];
    const auto tokens = p["tokens_per_step"].get<double>();
    const auto causal = flops["causal"].get<double>();
    std::string text = p["name"].get<std::string>() + ": " + p["family"].get<std::string>() + ", " +
                       count_text(p["parameters"]) + " parameters";
    if (p.contains("active_parameters"))
        text += ", " + count_text(p["active_parameters"]) + " of them used for each token";
    if (p["frozen_parameters"] != 0)
        text += ", " + count_text(p["frozen_parameters"]) + " of them frozen";
    text += "\nmesh        dp " + mesh["dp"].dump() + " x pp " + mesh["pp"].dump() + " x cp " +
            mesh["cp"].dump() + " x tp " + mesh["tp"].dump() + " = " +
            counted(mesh["world_size"].get<int>(), "rank") + "\n";
    text += stages_text(p["stages"], mesh["tp"]);
    text += "a step      " + count_text(p["tokens_per_step"]) + " " +
            noun_for(p["tokens_per_step"].get<std::int64_t>(), "token") + ", " +
            counted(pipeline["microbatches"].get<std::int64_t>(), "micro-batch") + " per rank, " +
            flop_text(causal * tokens) + "\n";
    text += run_text(p);
    text += "arithmetic  " + flop_text(causal) + " a token (causal attention), " +
            flop_text(flops["full"].get<double>()) + " (full)\n";
    if (!p["steps"].is_null())
        text += "time        " + time_text(p["time"], mesh["world_size"]) + "\n";
    const OrderedJson& sent = p["communication_bytes_per_step"];
    text += "network     gradients " + bytes_text(sent["gradients"]);
    if (sent.contains("weights")) text += " and weights " + bytes_text(sent["weights"]);
    text += " per rank and step";
    if (sent.contains("activations"))
        text += ", activations " + bytes_text(sent["activations"]) + " per replica and step";
    for (const char* const axis : {"tensor", "context"})
        if (sent.contains(axis))
            text += std::string(", between ") + axis + "-parallel ranks " + bytes_text(sent[axis]) +
                    " per rank and step";
    if (!p.contains("memory_per_stage_bytes"))
        text += "\nmemory      " + memory_text(p["memory_per_rank_bytes"]) + "\n";
    else
        text += "\n" + memory_table(p["memory_per_stage_bytes"]) + links_text(p["links"]);
    text += offloaded_text(p["memory_per_rank_bytes"], p["offload"]);
    if (p.contains("warnings"))
        for (const OrderedJson& warning : p["warnings"])
            text += "warning     " + warning.get<std::string>() + "\n";
    text += recompute_text(p) + optimizer_text(p["optimizer"]) + "checkpoint  weights " +
            bytes_text(disk["weights"]) + ", optimizer " + bytes_text(disk["optimizer"]) + "\n" +
            (p.contains("teacher") ? teacher_text(p["teacher"]) : "") + pipeline_text(p);
    return text;
}

PlanDrawing plan_drawing(const spec::TrainSpec& spec, bool on_gpu) {
    const spec::ModelConfig model = setup_model(spec, {}, true).config;
    const JobPipeline pipeline = job_pipeline(spec, model, on_gpu);
    const plan::PipelineSchedule& schedule = pipeline.schedule;
    const plan::ScheduleReport report = need(plan::check(schedule, pipeline.costs));
    const std::string title =
        spec.name + ": " + schedule.name + ", pp " + std::to_string(schedule.pp) + " x vpp " +
        std::to_string(schedule.vp) + ", " + counted(schedule.microbatches, "micro-batch") +
        ", bubble " + percent_text(report.bubble);
    return {plan::svg_text(schedule, report, title), plan::trace_text(schedule, report)};
}

}  // namespace roll::train
