#include "worker/train/report/out_of_memory.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "worker/plan/mesh.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {
namespace {

// maximum number of memory parts, and of settings, that the message names
constexpr std::size_t kNamed = 3;

struct Setting {
    std::string text;
    std::function<void(spec::TrainSpec&)> set;
};

// A name with a number of bytes: a part of the memory, or a setting and the memory that it saves.
struct Amount {
    std::string text;
    std::int64_t bytes = 0;
};

// Returns settings with which the job may need less memory.
std::vector<Setting> settings(const spec::TrainSpec& spec) {
    const auto recompute = [](spec::Recompute kind) {
        return Setting{std::string("parallel.recompute ") + spec::name_of(kind),
                       [kind](spec::TrainSpec& s) {
                           s.parallel.recompute = kind;
                           s.parallel.recompute_method = spec::RecomputeMethod::Uniform;
                           s.parallel.recompute_layers = 1;
                       }};
    };
    std::vector<Setting> all = {recompute(spec::Recompute::Full),
                                recompute(spec::Recompute::AttentionMlp),
                                recompute(spec::Recompute::Attention)};
    if (spec.micro_batch_size % 2 == 0)
        all.push_back({"train.micro_batch_size " + std::to_string(spec.micro_batch_size / 2),
                       [](spec::TrainSpec& s) { s.micro_batch_size /= 2; }});
    if (spec.seq_length > 1)
        all.push_back({"train.seq_length " + std::to_string(spec.seq_length / 2),
                       [](spec::TrainSpec& s) { s.seq_length /= 2; }});
    if (spec.precision != spec::Precision::Bf16)
        all.push_back({"train.precision bf16",
                       [](spec::TrainSpec& s) { s.precision = spec::Precision::Bf16; }});
    if (spec.optimizer.offload < 1)
        all.push_back({spec.optimizer.offload > 0 ? "train.optimizer.offload_fraction 1"
                                                  : "train.optimizer.offload state",
                       [](spec::TrainSpec& s) { s.optimizer.offload = 1; }});
    if (!spec.offloads_activations)
        all.push_back({"train.activation_offload saved",
                       [](spec::TrainSpec& s) { s.offloads_activations = true; }});
    if (spec.parallel.tp > 1)
        all.push_back(
            {"parallel.sequence true", [](spec::TrainSpec& s) { s.parallel.sequence = true; }});
    for (int zero = 1; spec.parallel.replicas() > 1 && zero <= 3; ++zero)
        all.push_back({"parallel.zero " + std::to_string(zero),
                       [zero](spec::TrainSpec& s) { s.parallel.zero = zero; }});
    return all;
}

// Returns the kNamed largest amounts above 0 as text, the largest first.
std::string largest(std::vector<Amount> amounts, const char* verb) {
    std::ranges::stable_sort(amounts, std::ranges::greater{}, &Amount::bytes);
    std::string text;
    for (std::size_t i = 0; i < std::min(kNamed, amounts.size()); ++i)
        if (amounts[i].bytes > 0)
            text +=
                (i > 0 ? ", " : "") + amounts[i].text + verb + plan::bytes_text(amounts[i].bytes);
    return text;
}

// Returns the memory that a rank of the stage needs; nullopt if the job could not run.
std::optional<plan::MemoryBytes> memory_of(spec::TrainSpec spec, const spec::ModelConfig& model,
                                           int stage, bool on_gpu) {
    try {
        check_spec(spec);
        const JobPipeline pipeline = job_pipeline(spec, model, on_gpu);
        return stage_memory(spec, model, pipeline, on_gpu)[static_cast<std::size_t>(stage)];
    } catch (const RankFailure&) {
        return std::nullopt;
    }
}

}  // namespace

std::string out_of_memory_text(const spec::TrainSpec& given, const spec::ModelConfig& model,
                               int rank, bool on_gpu, const OutOfMemory& failure) {
    const spec::ParallelSpec& p = given.parallel;
    const int stage = need(plan::Mesh::make(p, p.replicas() * p.tp * p.pp)).place(rank).pp;
    std::string text = "out of memory";
    if (!failure.during().empty()) text += " during " + failure.during();
    if (failure.bytes() > 0)
        text += ": no room for " + plan::bytes_text(static_cast<std::int64_t>(failure.bytes()));
    spec::TrainSpec spec = given;
    if (p.recompute != spec::Recompute::Auto) spec.parallel.memory_limit = 0;
    const auto planned = memory_of(spec, model, stage, on_gpu);
    if (!planned) return text;
    const plan::MemoryBytes& m = *planned;
    text += "; planned for this rank: " + plan::bytes_text(m.total()) + "; the largest parts: " +
            largest({{"activations", m.activations},
                     {"workspace", m.workspace},
                     {"gradients", m.gradients},
                     {"optimizer", m.moments + m.main_weights},
                     {"weights", m.weights},
                     {"checkpoint snapshot", m.snapshot},
                     {"exchange buffers", m.exchange}},
                    " ");
    std::vector<Amount> savings;
    for (const Setting& setting : settings(spec)) {
        spec::TrainSpec changed = spec;
        setting.set(changed);
        changed.parallel.memory_limit = 0;
        if (const auto other = memory_of(changed, model, stage, on_gpu))
            savings.push_back({setting.text, m.total() - other->total()});
    }
    const std::string saves = largest(std::move(savings), " saves ");
    return saves.empty() ? text : text + "; " + saves;
}

std::int64_t largest_microbatch(spec::TrainSpec spec, const spec::ModelConfig& model, bool on_gpu) {
    const std::int64_t rows = spec.global_batch_size / spec.parallel.dp;
    for (std::int64_t size = rows; size > 0; --size) {
        if (rows % size != 0) continue;
        spec.micro_batch_size = size;
        if (memory_of(spec, model, 0, on_gpu)) return size;
    }
    return 0;
}

}  // namespace roll::train
