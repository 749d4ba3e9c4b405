#include "worker/train/prove/cut.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/spec/check/pipeline.hpp"
#include "worker/train/pipeline/stage_choice.hpp"
#include "worker/train/prove/cut_layers.hpp"

namespace roll::train {
namespace {

// Minimum sizes of the small model, at which the search for valid sizes starts. Most numbers of
// ranks are powers of two. The minimum sizes are not powers of two, so that few numbers of ranks
// divide a size by chance.
constexpr std::int64_t kHidden = 18, kHeadDim = 6, kIntermediatePerRank = 5, kVocabulary = 53,
                       kPositions = 11, kWindow = 3, kExperts = 5;
// Soft caps that are small enough to affect the scores and logits of the small model.
constexpr double kScoreCap = 2, kLogitCap = 5;

// If `size` is a multiple of `from`, returns the smallest multiple of `to` in [least, size).
// Otherwise, returns the smallest number in [least, size) that is not a multiple of `to`. If there
// is no such number, returns `size`.
std::int64_t least_like(std::int64_t size, std::int64_t least, int from, int to) {
    for (std::int64_t number = least; number < size; ++number)
        if ((number % to == 0) == (size % from == 0)) return number;
    return size;
}

void cut_ranks(spec::ParallelSpec& p) {
    const auto ranks = [&] { return std::int64_t{p.dp} * p.tp * p.pp * p.cp; };
    if (ranks() > kRanksMax) p.dp = std::min(p.dp, 2);
    if (ranks() > kRanksMax) p.tp = std::min(p.tp, 2);
    if (ranks() > kRanksMax) p.cp = std::min(p.cp, 2);
    if (ranks() > kRanksMax) p.pp = kRanksMax / (p.dp * p.tp * p.cp);
}

// Returns the group size of an interleaved schedule; 0 if the schedule has the default size. The
// group size is the number of micro-batches that pass rank 0's first chunk before its second chunk
// starts.
int group_of(const plan::PipelineSchedule& schedule) {
    int group = 0;
    for (const plan::Op& op : schedule.ranks.front()) {
        if (op.kind != plan::OpKind::Forward) continue;
        if (op.chunk > 0) break;
        ++group;
    }
    return group == schedule.pp ? 0 : group;
}

void name_schedule(spec::ParallelSpec& p, const plan::PipelineSchedule& schedule) {
    if (p.schedule != spec::Schedule::Auto) return;
    p.schedule = spec::schedule_named(schedule.name).value_or(spec::Schedule::Auto);
    p.activation_limit = 0;
    if (p.schedule == spec::Schedule::Interleaved && p.group == 0) p.group = group_of(schedule);
}

// Returns a small number of micro-batches per replica for the proof. With this number, every stage
// has a warm-up, a phase in which forward and backward alternate, and a cool-down. In a job of many
// ranks and layers, the alternating phase is shorter, so that the proof is fast.
std::int64_t least_microbatches(const spec::ParallelSpec& p, std::int64_t layers,
                                std::int64_t microbatches) {
    constexpr std::int64_t kLayerPasses =
        10'000;  // limit on the number of forward passes of layers in a step, on all ranks
    std::int64_t wanted = 2 * std::max({1, p.pp, p.group});
    if (layers * p.dp * p.tp * p.cp * wanted > kLayerPasses) wanted /= 2;
    for (std::int64_t m = std::min(wanted, microbatches); m < microbatches; ++m)
        if (spec::pipeline_problems(p, {.microbatches = m}).empty()) return m;
    return microbatches;
}

// Reduces the number of heads, and of queries per key-value head. If every rank has several
// key-value heads, every rank of the small job also has several.
void cut_heads(spec::ModelConfig& config, const spec::ParallelSpec& from,
               const spec::ParallelSpec& to) {
    const std::int64_t queries = config.heads / config.kv_heads;  // query heads per key-value head
    config.kv_heads = to.tp * std::min<std::int64_t>(config.kv_heads / from.tp, 2);
    config.heads = config.kv_heads * (queries == 1 ? 1 : queries % 2 == 0 ? 2 : 3);
    config.head_dim = std::min(config.head_dim, kHeadDim);
}

std::vector<double> cut_factors(const std::vector<double>& factors, std::int64_t count) {
    std::vector<double> kept;
    const auto all = std::ssize(factors);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(count, all); ++i)
        kept.push_back(factors[static_cast<std::size_t>(i * all / count)]);
    return kept;
}

// Reduces all sizes that depend on the length of the sequences.
void cut_positions(spec::ModelConfig& config, std::int64_t from, std::int64_t to) {
    spec::RopeScaling& scaling = config.rope_scaling;
    if (config.window > 0) config.window = config.window < from ? kWindow : to;
    config.positions_max = to;
    if (scaling.kind != spec::RopeScaling::Kind::Long) return;
    const bool longer = from > scaling.same_up_to();
    scaling.original_positions = static_cast<double>(longer ? to / 2 : to);
    scaling.short_factors = cut_factors(scaling.short_factors, config.head_dim / 2);
    scaling.long_factors = cut_factors(scaling.long_factors, config.head_dim / 2);
}

// Reduces the LoRA ranks r of the modules. Modules with different r still have different r. If a
// module belongs to a layer that the small job does not have, assigns the module to one of the
// small job's layers.
void cut_lora(spec::LoraSpec& lora, std::int64_t layers) {
    std::set<std::int64_t> ranks;
    for (const spec::LoraModule& module : lora.modules) ranks.insert(module.r);
    const auto small = [&](std::int64_t r) {
        return std::min(r, std::distance(ranks.begin(), ranks.find(r)) + 2);
    };
    for (spec::LoraModule& module : lora.modules) module.r = small(module.r);
    if (ranks.contains(lora.r)) lora.r = small(lora.r);
    std::set<std::pair<std::int64_t, spec::LoraPlace>> seen;
    std::erase_if(lora.modules, [&](spec::LoraModule& module) {
        if (module.layer >= layers) module.layer %= layers;
        return !seen.emplace(module.layer, module.place).second;
    });
    std::ranges::sort(lora.modules, {}, [](const spec::LoraModule& module) {
        return std::pair(module.layer, module.place);
    });
}

void cut_model(SmallJob& job, const spec::ParallelSpec& from, std::int64_t seq_length) {
    spec::ModelConfig& config = job.config;
    const spec::ParallelSpec& to = job.spec.parallel;
    const auto hidden = static_cast<double>(config.hidden);
    cut_heads(config, from, to);
    config.hidden = least_like(config.hidden, std::max<std::int64_t>(kHidden, to.replicas()),
                               from.replicas(), to.replicas());
    config.intermediate = to.tp * std::min(config.intermediate / from.tp, kIntermediatePerRank);
    config.experts = std::min(config.experts, std::max(kExperts, config.experts_per_token + 1));
    config.vocab = least_like(config.vocab, std::max<std::int64_t>(kVocabulary, to.replicas()),
                              from.tp, to.tp);
    // Gemma multiplies the embedding by the square root of the hidden size, rounded to bfloat16
    if (std::abs(config.embedding_scale / std::sqrt(hidden) - 1) < 0.01)
        config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
    config.attention_soft_cap = std::min(config.attention_soft_cap, kScoreCap);
    config.logit_soft_cap = std::min(config.logit_soft_cap, kLogitCap);
    cut_positions(config, seq_length, job.spec.seq_length);
    cut_lora(config.lora, config.layers);
}

// Reduces the number of sequences and micro-batches. The small job keeps two properties of the
// original job: whether tp divides the number of rows of a micro-batch, and whether 2 cp divides
// the length of a sequence.
void cut_batch(spec::TrainSpec& spec, std::int64_t layers, const spec::TrainSpec& from) {
    // A schedule file names every micro-batch, so the number of micro-batches must not change.
    const bool is_fixed = !spec.parallel.schedule_file.empty();
    const std::int64_t microbatches =
        is_fixed ? from.microbatches()
                 : least_microbatches(spec.parallel, layers, from.microbatches());
    spec.micro_batch_size = std::min<std::int64_t>(from.micro_batch_size, 2);
    spec.global_batch_size = microbatches * spec.micro_batch_size * spec.parallel.dp;
    const auto divided = [](const spec::TrainSpec& s, std::int64_t length) {
        return std::pair(s.micro_batch_size * length % s.parallel.tp == 0,
                         s.parallel.cp == 1 || length % (2 * s.parallel.cp) == 0);
    };
    std::int64_t positions = std::min(from.seq_length, kPositions);
    while (positions < from.seq_length &&
           divided(spec, positions) != divided(from, from.seq_length))
        ++positions;
    spec.seq_length = positions;
}

// Returns the sizes that differ between the job and the small job.
std::vector<Cut> cuts_of(const spec::TrainSpec& from_spec, const spec::ModelConfig& from,
                         const SmallJob& to) {
    const spec::ParallelSpec &p = from_spec.parallel, &small = to.spec.parallel;
    const auto number = [](auto size) { return static_cast<double>(size); };
    std::vector<Cut> cuts = {
        {"parallel.dp", number(p.dp), number(small.dp)},
        {"parallel.tp", number(p.tp), number(small.tp)},
        {"parallel.pp", number(p.pp), number(small.pp)},
        {"parallel.cp", number(p.cp), number(small.cp)},
        {"parallel.first_layers", number(p.first_layers), number(small.first_layers)},
        {"parallel.last_layers", number(p.last_layers), number(small.last_layers)},
        {"num_hidden_layers", number(from.layers), number(to.config.layers)},
        {"hidden_size", number(from.hidden), number(to.config.hidden)},
        {"num_attention_heads", number(from.heads), number(to.config.heads)},
        {"num_key_value_heads", number(from.kv_heads), number(to.config.kv_heads)},
        {"head_dim", number(from.head_dim), number(to.config.head_dim)},
        {"intermediate_size", number(from.intermediate), number(to.config.intermediate)},
        {"num_experts", number(from.experts), number(to.config.experts)},
        {"vocab_size", number(from.vocab), number(to.config.vocab)},
        {"sliding_window", number(from.window), number(to.config.window)},
        {"attn_logit_softcapping", from.attention_soft_cap, to.config.attention_soft_cap},
        {"final_logit_softcapping", from.logit_soft_cap, to.config.logit_soft_cap},
        {"train.lora.r", number(from.lora.r), number(to.config.lora.r)},
        {"train.seq_length", number(from_spec.seq_length), number(to.spec.seq_length)},
        {"train.micro_batch_size", number(from_spec.micro_batch_size),
         number(to.spec.micro_batch_size)},
        {"micro-batches of a replica", number(from_spec.microbatches()),
         number(to.spec.microbatches())}};
    std::erase_if(cuts, [](const Cut& cut) { return cut.from == cut.to; });
    return cuts;
}

}  // namespace

SmallJob cut_job(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                 const plan::PipelineSchedule& schedule) {
    SmallJob job{spec, config, {}};
    job.spec.parallel = with_stages(spec, config);
    name_schedule(job.spec.parallel, schedule);
    cut_ranks(job.spec.parallel);
    if (job.spec.parallel.pp != spec.parallel.pp) job.spec.parallel.schedule_file.clear();
    cut_layers(job.spec, job.config, spec.parallel);
    cut_batch(job.spec, job.config.layers, spec);
    cut_model(job, spec.parallel, spec.seq_length);
    job.cuts = cuts_of(spec, config, job);
    return job;
}

}  // namespace roll::train
