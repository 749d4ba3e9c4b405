// Tests LoRA with different adapters in different layers and with all options together, the packed
// base, and that only the factors are trained. grid_test.cpp trains the kinds of adapters in every
// layout.
#include <cstdlib>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/cells.hpp"
#include "tests/worker/train/pipeline/product_counter.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/packed_base.hpp"
#include "worker/train/model/trained_chunks.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kTinyTokens = 22;  // of a micro-batch of tiny_batch()
constexpr double kNoClip = 0;             // because the gradient of factors is small

// Returns the names of the linear layers of the decoder layers.
std::vector<std::string> names_of(const spec::ModelConfig& config) {
    std::vector<std::string> names;
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
        for (const auto& [name, place] : spec::kLoraPlaces)
            names.push_back("model.layers." + std::to_string(layer) + "." + std::string(name));
    return names;
}

spec::ModelConfig with_lora(spec::ModelConfig config, const Json& lora) {
    config.lora = spec::resolve_lora(spec::lora_spec(lora), names_of(config)).value();
    return config;
}

const Json kAll = {{"r", 3}, {"alpha", 12}};
// Layer 0 has no adapter, and the others have different ones.
const Json kLayers = {{"r", 2},
                      {"alpha", 8},
                      {"targets", R"(.*\.(1\.(q|o)_proj|[23]\.(v|up|down)_proj))"},
                      {"rank_pattern", {{R"(2\..*)", 3}}}};

TEST(Lora, LayersWithDifferentAdaptersTrainInEveryLayoutAsOnOneRank) {
    const spec::ModelConfig config = with_lora(split_model(false), kLayers);
    const int m = kMicrobatches;
    const Named reference = train(config, plan::gpipe(1, 1, m), {.clip = kNoClip});
    const auto cell = [](int dp, int tp, int zero = 0, bool sequence = false) {
        return Cell{.dp = dp, .tp = tp, .zero = zero, .sequence = sequence, .clip = kNoClip};
    };
    worst(train(config, plan::zero_bubble_h1(2, m), cell(1, 1)), reference);
    worst(train(config, plan::gpipe(1, 1, m), cell(1, 4, 0, true)), reference);
    worst(train(config, plan::interleaved(2, 2, m / 2), cell(2, 2, 1, true)), reference);
    worst(train(config, plan::zero_bubble_h1(2, m / 2), cell(2, 2, 3)), reference);
}

// Compares to 1e-10, because the first updates of factors with small gradients are less exact than
// 1e-12.
void expect_close_small(const Named& seen, const Named& reference) {
    EXPECT_EQ(seen.size(), reference.size());
    for (const auto& [name, tensor] : reference) expect_close(seen.at(name), tensor, name, 1e-10);
}

// DoRA's magnitudes, dropout, modules that are trained whole and a packed base do not depend on the
// layout either. Shards begin within blocks of 64 columns, and scales are packed over the rows of a
// whole matrix.
TEST(Lora, AllOptionsTogetherTrainInEveryLayoutAsOnOneRank) {
    const Json lora = {{"r", 2},         {"dora", true},
                       {"dropout", 0.5}, {"modules_to_save", {"embed_tokens", "lm_head"}},
                       {"base", "nf4"},  {"double_quantization", true}};
    spec::ModelConfig config = with_lora(split_model(false), lora);
    config.intermediate = 136;
    const int m = kMicrobatches;
    const auto cell = [](int dp, int tp, int zero = 0, bool sequence = false) {
        return Cell{.dp = dp, .tp = tp, .zero = zero, .sequence = sequence, .clip = kNoClip};
    };
    const Named reference = train(config, plan::gpipe(1, 1, m), cell(1, 1));
    expect_close_small(train(config, plan::zero_bubble_h1(2, m / 2), cell(2, 1, 3)), reference);
    expect_close_small(train(config, plan::gpipe(1, 1, m / 2), cell(2, 4, 2)), reference);
    expect_close_small(train(config, plan::interleaved(2, 2, m / 2), cell(2, 2, 1, true)),
                       reference);
}

// Counts the bytes of the tensors of this thread.
struct CountingAllocator final : c10::Allocator {
    static inline thread_local std::int64_t bytes = 0;

    c10::DataPtr allocate(std::size_t size) override {
        auto* const block =
            static_cast<std::size_t*>(std::aligned_alloc(64, (size + 127) / 64 * 64));
        *block = size;
        bytes += static_cast<std::int64_t>(size);
        return {block + 8, block, &release, c10::Device(c10::kCPU)};
    }
    static void release(void* block) {
        bytes -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
        std::free(block);
    }
    void copy_data(void* to, const void* from, std::size_t size) const override {
        default_copy_data(to, from, size);
    }
};

// The work of a micro-batch: the bytes that forward saves for backward, and the FLOPs of matrix
// products in backward.
struct Work {
    std::int64_t saved = 0, flops = 0;
};

// Returns the loss of a micro-batch, and fills the gradients. Sets `work`.
double backward_of(Chunk& chunk, Work* work = nullptr) {
    const auto ready = [](int) {};
    const Microbatch data = tiny_batch(0, 1)[0];
    chunk.begin_step();
    const std::int64_t before = CountingAllocator::bytes;
    const at::Tensor loss = chunk.forward(0, data, {}, {.scale = 0.1}, ready);
    if (work != nullptr) {
        work->saved = CountingAllocator::bytes - before;
        ProductCounter::count_into(&work->flops);
    }
    chunk.backward_input(0, {}, WeightHalves::Now, ready);
    chunk.backward_weight(0, ready);
    ProductCounter::count_into(nullptr);
    return loss.item<double>();
}

// A packed base computes as a model does whose weights are the unpacked numbers.
TEST(Lora, APackedBaseComputesAsItsNumbersDo) {
    const at::InferenceMode no_autograd;
    for (const char* base : {"nf4", "int8"})
        for (const bool dora : {false, true}) {
            spec::ModelConfig config =
                with_lora(split_model(false), {{"r", 2}, {"base", base}, {"dora", dora}});
            config.intermediate = 136;
            Chunk few(config, whole_chunk(config), {.dtype = at::kDouble});
            config.lora.base = spec::LoraBase::Full;
            Chunk full(config, whole_chunk(config), {.dtype = at::kDouble});
            const Parameters &p = few.parameters(), &q = full.parameters();
            double changed = 0;
            for (std::size_t i = 0; i < p.specs.size(); ++i) {
                changed = std::max(changed, error(weight_of(p, i), q.weight[i]));
                q.weight[i].copy_(weight_of(p, i));
                if (p.specs[i].name.find(".lora_B.") == std::string::npos) continue;
                p.weight[i].fill_(0.1);
                q.weight[i].fill_(0.1);
            }
            EXPECT_GT(changed, 1e-3);
            EXPECT_LT(4 * p.flat_packed.nbytes(), q.flat_weight.nbytes());
            few.start_magnitudes();
            full.start_magnitudes();
            EXPECT_EQ(backward_of(few), backward_of(full));
            for (std::size_t i = 0; i < p.specs.size(); ++i)
                EXPECT_TRUE(p.grad[i].equal(q.grad[i])) << p.specs[i].name;
        }
}

// Returns the FLOPs of forward's products with the weights of a layer, for a micro-batch of
// tiny_batch().
std::int64_t layer_flops(const spec::ModelConfig& config) {
    const std::int64_t all = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
    const std::int64_t weights =
        config.hidden * (2 * all + 2 * kv) + 3 * config.hidden * config.intermediate;
    return 2 * kTinyTokens * weights;
}

// Backward computes the same bits whether or not it goes on below the lowest trained layer. Each
// layer below saves nothing, and has no product in backward. A layer above saves what the plan
// counts, and sums of rows. It has one product for each frozen weight, which is not the gradient of
// that weight.
TEST(Lora, LayersBelowTheLowestTrainedOneHaveNoBackwardAndChangeNoBit) {
    const at::InferenceMode no_autograd;
    const ProductCounter counter;
    static CountingAllocator allocator;
    c10::Allocator* const usual = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&allocator, /*priority=*/100);
    spec::ModelConfig config = tiny_model(false);
    config.layers = 8;
    config = with_lora(config, {{"r", 2}, {"targets", R"(.*\.[67]\.(k|down)_proj)"}});
    ASSERT_EQ(lowest_trained(config, {}), 6);
    const auto chunk_from = [&](std::int64_t lowest) {
        ChunkSpec part = whole_chunk(config);
        part.lowest = lowest;
        auto chunk = std::make_unique<Chunk>(config, part, InitOptions{.dtype = at::kDouble});
        const Parameters& p = chunk->parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (p.specs[i].lora == LoraRole::Factor) p.weight[i].fill_(0.1);
        return chunk;
    };
    Work all_work, work[7];
    const std::unique_ptr<Chunk> all = chunk_from(-1);
    const double loss = backward_of(*all, &all_work);
    for (const std::int64_t lowest : {3, 6}) {
        const std::unique_ptr<Chunk> chunk = chunk_from(lowest);
        EXPECT_EQ(backward_of(*chunk, &work[lowest]), loss);
        double largest = 0;
        for (std::size_t i = 0; i < chunk->parameters().specs.size(); ++i) {
            const at::Tensor& grad = chunk->parameters().grad[i];
            EXPECT_TRUE(grad.equal(all->parameters().grad[i])) << chunk->parameters().specs[i].name;
            largest = std::max(largest, grad.abs().max().item<double>());
        }
        EXPECT_GT(largest, 0);
    }
    spec::TrainSpec spec;
    spec.precision = spec::Precision::Fp64;
    spec.micro_batch_size = 2;
    spec.seq_length = 11;
    const auto planned = [&](std::int64_t lowest) {
        const std::vector<plan::StagePart> part = {{.layers = config.layers,
                                                    .lowest = lowest,
                                                    .below = std::max<std::int64_t>(lowest, 0)}};
        return plan::stage_costs(config, spec, part).front().after_forward;
    };
    const std::int64_t saved = work[3].saved - work[6].saved;
    EXPECT_EQ(all_work.saved - work[3].saved, saved);
    EXPECT_GE(saved, planned(3) - planned(6));
    EXPECT_LE(saved, (planned(3) - planned(6)) * 21 / 20);
    EXPECT_EQ(all_work.flops - work[3].flops, 3 * layer_flops(config));
    EXPECT_EQ(work[3].flops - work[6].flops, 3 * layer_flops(config));
    // Two layers and the output layer, with one product for each frozen weight, and the factors
    const std::int64_t head = 2 * kTinyTokens * config.hidden * config.vocab;
    EXPECT_GT(work[6].flops, 2 * layer_flops(config) + head);
    EXPECT_LT(work[6].flops, 3 * layer_flops(config) + head);
    c10::SetCPUAllocator(usual, /*priority=*/100);
}

TEST(Lora, OnlyTheFactorsAreTrained) {
    const spec::ModelConfig config = with_lora(split_model(false), kAll);
    const Named seen = train(config, plan::gpipe(1, 1, kMicrobatches), {.clip = kNoClip});
    const auto is_factor = [](const std::string& name) {
        return name.find(".lora_") != std::string::npos;
    };
    int factors = 0;
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config))) {
        EXPECT_EQ(spec.frozen, !is_factor(spec.name)) << spec.name;
        EXPECT_EQ(seen.at("0.weight." + spec.name).equal(seen.at("2.weight." + spec.name)),
                  spec.frozen)
            << spec.name;
        factors += spec.frozen ? 0 : 1;
    }
    EXPECT_EQ(factors, 2 * 7 * config.layers);
}

TEST(Lora, EveryTensorParallelRankDrawsTheBitsOfTheWholeFactors) {
    const spec::ModelConfig config = with_lora(split_model(false), kAll);
    const auto drawn = [&](int tp) {
        Named seen;
        for (int rank = 0; rank < tp; ++rank) {
            const Parameters p = make_parameters(
                parameter_specs(config, {.layer_end = 2, .tp = tp, .tp_rank = rank}),
                {.seed = 5, .dtype = at::kFloat, .draw = false});
            for (std::size_t i = 0; i < p.specs.size(); ++i)
                if (p.specs[i].lora == LoraRole::Factor)
                    note_part(seen, p.specs[i].name, p.specs[i], p.weight[i]);
        }
        return seen;
    };
    const Named whole = drawn(1);
    for (const int tp : {2, 4})
        for (const auto& [name, tensor] : drawn(tp))
            EXPECT_TRUE(whole.at(name).equal(tensor)) << name;
    for (const auto& [name, tensor] : whole) {
        const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
        const double largest = tensor.abs().max().item<double>();
        if (name.find(".lora_B.") != std::string::npos)
            EXPECT_EQ(largest, 0) << name;
        else
            EXPECT_TRUE(largest <= bound && largest > 0.8 * bound) << name;
    }
}

}  // namespace
}  // namespace roll::train
