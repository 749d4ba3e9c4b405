#include "worker/train/pipeline/choose_recompute.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "worker/plan/size_text.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

using spec::Recompute;

// A possible recomputation of a stage. All chunks of the stage have the same recomputation. The
// first `count` layers of a chunk recompute `kind`, in units of `unit` layers. The other layers
// recompute `other`.
struct Choice {
    Recompute kind = Recompute::None;
    std::int64_t count = 0;
    std::int64_t unit = 1;
    Recompute other = Recompute::None;
};

// Returns all choices for a stage whose chunks have at most `layers` layers.
std::vector<Choice> choices(std::int64_t layers) {
    using enum Recompute;
    constexpr std::pair<Recompute, Recompute> kPairs[] = {
        {Attention, None},         {Mlp, None},       {AttentionMlp, None}, {Full, None},
        {AttentionMlp, Attention}, {Full, Attention}, {AttentionMlp, Mlp},  {Full, Mlp},
        {Full, AttentionMlp}};
    std::vector<Choice> all{{}};
    for (const auto& [kind, other] : kPairs)
        for (std::int64_t count = 1; count <= layers; ++count)
            all.push_back({kind, count, 1, other});
    for (std::int64_t unit = 2; unit <= layers; ++unit) all.push_back({Full, layers, unit, None});
    return all;
}

// A pipeline stage for which recomputation is chosen, and functions that measure a choice.
struct Stage {
    const spec::TrainSpec& spec;
    const spec::ModelConfig& config;
    const JobPipeline& job;
    int number;
    plan::Held held;

    const ChunkSpec& chunk(int i) const { return job.chunks[job.schedule.stage(number, i)]; }

    std::int64_t layers_most() const {
        std::int64_t most = 0;
        for (int i = 0; i < job.schedule.vp; ++i)
            most = std::max(most, chunk(i).layer_end - chunk(i).backward_begin());
        return most;
    }

    void set(plan::Recomputed& all, const Choice& choice) const {
        for (int i = 0; i < job.schedule.vp; ++i)
            plan::set_recomputed(all, {chunk(i).backward_begin(), chunk(i).layer_end}, choice.kind,
                                 choice.count, choice.unit, choice.other);
    }

    // Returns the number of bytes that a rank of the stage needs if `all` lists the recomputation
    // of the model's layers.
    std::int64_t bytes(const plan::Recomputed& all) {
        held.recompute.clear();
        std::vector<plan::Costs> costs = job.costs;
        for (int i = 0; i < job.schedule.vp; ++i) {
            const ChunkSpec& own = chunk(i);
            const auto index = static_cast<std::size_t>(job.schedule.stage(number, i));
            held.recompute.insert(held.recompute.end(), all.begin() + own.layer_begin,
                                  all.begin() + own.layer_end);
            const plan::StagePart part = parts_of(job, spec.parallel.tp)[index];
            costs[index] = plan::stage_costs(config, spec, {&part, 1}, all).front();
        }
        if (job.schedule.pp > 1)
            held.activations = plan::peak_bytes(job.schedule, number, costs_in_memory(spec, costs));
        return plan::memory_bytes(config, spec, held).total();
    }
};

std::string bytes_of(std::int64_t bytes) {
    return plan::bytes_text(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

// Writes the best choice for the stage into `all`. Returns the smallest memory of a rank that the
// search found. If this memory is above the limit, no choice fits, and `all` does not change.
std::int64_t choose(Stage stage, plan::Recomputed& all) {
    const std::int64_t limit = stage.spec.parallel.memory_limit;
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), best_bytes = least;
    double best_flops = std::numeric_limits<double>::infinity();
    std::optional<Choice> best;
    for (const Choice& choice : choices(stage.layers_most())) {
        plan::Recomputed tried(all.size());
        stage.set(tried, choice);
        const double flops = plan::recompute_flops_per_token(stage.config, stage.spec, tried);
        if (best && flops > best_flops) continue;
        const std::int64_t bytes = stage.bytes(tried);
        least = std::min(least, bytes);
        if (bytes > limit || (flops == best_flops && bytes >= best_bytes)) continue;
        best = choice;
        best_flops = flops;
        best_bytes = bytes;
    }
    if (best) stage.set(all, *best);
    return least;
}

// Throws if a rank of any stage needs more than the limit. The message names the stage that needs
// the most, so that a limit that fits this stage fits all stages. `needs`: the bytes that a rank of
// each stage needs. `before` and `after`: the words around these bytes in the message.
void check_needs(std::int64_t limit, const std::vector<std::int64_t>& needs,
                 const std::string& before, const std::string& after) {
    const auto most = std::ranges::max_element(needs);
    if (*most > limit)
        throw RankFailure(2, "parallel.memory_limit is " + bytes_of(limit) +
                                 ", but a rank of stage " + std::to_string(most - needs.begin()) +
                                 " needs " + before + bytes_of(*most) + after);
}

}  // namespace

std::vector<plan::ChunkLayers> chunk_layers(const std::vector<ChunkSpec>& chunks) {
    std::vector<plan::ChunkLayers> layers;
    for (const ChunkSpec& chunk : chunks)
        layers.emplace_back(chunk.backward_begin(), chunk.layer_end);
    return layers;
}

plan::Recomputed chosen_recompute(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                  const JobPipeline& job, std::vector<plan::Held> held) {
    plan::Recomputed all(static_cast<std::size_t>(config.layers));
    std::vector<std::int64_t> needs;
    for (int stage = 0; stage < job.schedule.pp; ++stage)
        needs.push_back(choose({spec, config, job, stage, std::move(held[stage])}, all));
    check_needs(spec.parallel.memory_limit, needs, "at least ",
                " even with full recomputation; raise memory_limit to that value, lower "
                "train.micro_batch_size, or raise tp, pp or zero");
    return all;
}

void check_limit(const spec::TrainSpec& spec, const std::vector<plan::MemoryBytes>& stages) {
    const std::int64_t limit = spec.parallel.memory_limit;
    std::vector<std::int64_t> needs;
    for (const plan::MemoryBytes& stage : stages) needs.push_back(stage.total());
    check_needs(limit, needs, "",
                std::string(" with recompute ") + spec::name_of(spec.parallel.recompute) +
                    "; set parallel.recompute to auto, or a larger memory_limit");
}

}  // namespace roll::train
