// A layout divides the work of a job among the ranks, as the plan says. The test counts, while the
// layouts run as threads, each rank's weights, optimizer state, FLOPs of matrix products and sent
// bytes by tag. It compares the counts with the plan, exactly.
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/worker/train/pipeline/product_counter.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/plan/tensor_bytes.hpp"
#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/pipeline/job_cost.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// The work of one rank in a step, and its memory after the step.
struct Count {
    std::int64_t weights = 0, states = 0;  // bytes
    std::int64_t flops = 0;                // of linear layers and of the output layer
    std::map<Site, double> sent;           // bytes by tag, without those in `again`
    double again = 0;                      // bytes that recomputation sends a second time
};

// Adds up the bytes that a rank sends, by tag. A ring is assumed for collectives, as in the plan.
class Counting : public Communicator {
  public:
    Counting(std::unique_ptr<Communicator> inner, Count& count)
        : inner_(std::move(inner)),
          count_(count) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    Ticket issue(const Transfer& transfer) override {
        // ZeRO-3 gathers weights again for backward, which the plan counts.
        const bool is_again = transfer.tag.again && transfer.tag.site != Site::Weights;
        (is_again ? count_.again : count_.sent[transfer.tag.site]) += sent(transfer);
        return inner_->issue(transfer);
    }
    void wait(Ticket ticket) override { inner_->wait(ticket); }

  private:
    double sent(const Transfer& transfer) const {
        const auto bytes = static_cast<double>(transfer.payload().nbytes());
        const double others = inner_->size() - 1.0;
        switch (transfer.kind) {
            case Transfer::Kind::AllReduce: return 2 * bytes * others / inner_->size();
            case Transfer::Kind::AllGather: return bytes * others;
            case Transfer::Kind::ReduceScatter: return bytes * others / inner_->size();
            case Transfer::Kind::Broadcast: return transfer.peer == rank() ? bytes * others : 0;
            case Transfer::Kind::Send: return bytes;
            case Transfer::Kind::Receive: break;
        }
        return 0;
    }

    std::unique_ptr<Communicator> inner_;
    Count& count_;
};

// A model that every layout below divides evenly.
spec::ModelConfig even_model() {
    return {.family = "llama",
            .hidden = 32,
            .layers = 8,
            .heads = 8,
            .kv_heads = 4,
            .head_dim = 4,
            .intermediate = 64,
            .vocab = 64,
            .positions_max = 64,
            .tied = false};
}

constexpr std::int64_t kMicrobatch = 1, kLength = 8;

spec::TrainSpec job_of(const spec::ParallelSpec& parallel, std::vector<std::string> freeze) {
    spec::TrainSpec spec;
    spec.model.freeze = std::move(freeze);
    spec.parallel = parallel;
    spec.precision = spec::Precision::Fp64;
    spec.seq_length = kLength;
    spec.micro_batch_size = kMicrobatch;
    spec.global_batch_size = 16;
    spec.steps = 1;
    return spec;
}

std::vector<Microbatch> batch_of(const spec::TrainSpec& spec, std::int64_t vocab) {
    at::manual_seed(1);
    std::vector<Microbatch> batch;
    for (std::int64_t m = 0; m < spec.microbatches(); ++m) {
        const at::Tensor ids = at::randint(vocab, {kMicrobatch, kLength + 1}, at::kLong);
        batch.push_back(
            {ids.narrow(1, 0, kLength).contiguous(), ids.narrow(1, 1, kLength).contiguous()});
    }
    return batch;
}

// Runs one step on all ranks. Returns the counts of the ranks.
std::vector<Count> counts_of(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                             const JobPipeline& pipeline) {
    const spec::ParallelSpec& p = spec.parallel;
    const int ranks = p.dp * p.tp * p.pp;
    const plan::Mesh mesh = need(plan::Mesh::make(p, ranks));
    TrainOptions options = train_options(spec, model);
    options.recompute = pipeline.recompute;
    std::vector<Count> counts(static_cast<std::size_t>(ranks));
    LocalFabric fabric(ranks);
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        Count& count = counts[static_cast<std::size_t>(rank)];
        const auto group = [&](const char* name, plan::Axis axis) {
            const std::vector<int> members = mesh.group(rank, axis);
            return Counting(fabric.group(name + std::to_string(members.front()), members, rank),
                            count);
        };
        Counting pp = group("pp", plan::Axis::Pp), dp = group("dp", plan::Axis::Dp),
                 tp = group("tp", plan::Axis::Tp);
        const auto world = fabric.world(rank);
        TrainStep step(model, pipeline.schedule,
                       {.pp = pp, .dp = dp, .tp = &tp, .world = world.get()}, options);
        count.sent.clear();
        ProductCounter::count_into(&count.flops);
        step.run(batch_of(spec, model.vocab), 1e-3);
        ProductCounter::count_into(nullptr);
        for (Chunk& chunk : step.chunks())
            count.weights += static_cast<std::int64_t>(chunk.parameters().flat_weight.nbytes());
        for (Optimizer& optimizer : step.optimizers())
            for (const StateTensors& state : optimizer.state().kinds)
                count.states += static_cast<std::int64_t>(state.flat.nbytes());
    });
    return counts;
}

double sum_of(const Count& count, std::initializer_list<Site> sites) {
    double sum = 0;
    for (const Site site : sites)
        if (const auto found = count.sent.find(site); found != count.sent.end())
            sum += found->second;
    return sum;
}

// FLOPs of the products of one micro-batch, without attention scores. `layer`: one pass through a
// layer. `head`: one pass through the output layer. `again`: recomputation of a layer. `all`: all
// of forward and backward.
struct Products {
    double layer = 0, head = 0, again = 0, all = 0;
};

Products products_of(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const plan::Recomputed& recompute) {
    // Two figures of the plan count all scores and the causal ones, which are (T + 1) / 2 of T.
    const auto without_scores = [&](const spec::ModelConfig& m, const plan::Untrained& untrained) {
        const plan::FlopsPerToken flops = plan::flops_per_token(m, kLength, untrained);
        return flops.causal - (flops.full - flops.causal) * (kLength + 1) / (kLength - 1);
    };
    spec::ModelConfig none = model;
    none.layers = 0;
    const double tokens = static_cast<double>(plan::microbatch_tokens(spec));
    Products products;
    const plan::Untrained untrained = untrained_of(spec, model);
    const auto layers = static_cast<double>(model.layers);
    products.head = without_scores(none, {}) / 3 * tokens;
    products.layer = (without_scores(model, {}) / 3 * tokens - products.head) / layers;
    products.all = without_scores(model, untrained) * tokens;
    if (recompute.empty()) return products;
    const double scores = plan::flops_per_token(model, kLength).causal - without_scores(model, {});
    const double trained =
        layers - static_cast<double>(std::max<std::int64_t>(untrained.lowest, 0));
    products.again = plan::recompute_flops_per_token(model, spec, recompute) * tokens / trained -
                     scores / 3 / layers * tokens;
    products.all += products.again * trained;
    return products;
}

// Returns the FLOPs of a stage's products for one micro-batch. Layers below the lowest trained part
// run forward only.
double flops_of(const plan::StagePart& part, const Products& products, const spec::TrainSpec& spec,
                const spec::ModelConfig& model) {
    const auto layers = static_cast<double>(part.layers);
    const auto trained = static_cast<double>(part.layers - part.below);
    const bool has_input_grad = part.lowest <= model.layers;
    const bool has_weight_grad = !matches_any(spec.model.freeze, "output_layer.weight");
    const double passes = 1.0 + (has_input_grad ? 1 : 0) + (has_weight_grad ? 1 : 0);
    return products.layer * (layers + 2 * trained) + products.again * trained +
           (part.last ? products.head * passes : 0);
}

struct Case {
    const char* name;
    spec::ParallelSpec parallel;
    std::vector<std::string> freeze = {};
};

// Freezes everything below layer 5, and some of the parameters above.
const std::vector<std::string> kBelow5 = {"embedding.*", "decoder.layers.[0-4].*",
                                          "decoder.layers.6.*norm*"};
const std::vector<std::string> kAllButNorm = {"embedding.*", "decoder.layers.*", "output_layer.*"};
const std::vector<std::string> kAllButHead = {"embedding.*", "decoder.*"};

std::vector<Case> cases() {
    using enum spec::Schedule;
    return {{"dp 8", {.dp = 8}},
            {"dp 4, zero 2", {.dp = 4, .zero = 2}},
            {"dp 4, zero 3", {.dp = 4, .zero = 3}},
            {"tp 4, sequence", {.tp = 4, .sequence = true}},
            {"tp 2 x dp 4, zero 1", {.dp = 4, .tp = 2, .zero = 1}},
            {"pp 4", {.pp = 4}},
            {"pp 4, ZB-H1", {.pp = 4, .schedule = ZeroBubbleH1}},
            {"pp 2 x dp 2, interleaved", {.dp = 2, .pp = 2, .vpp = 2, .schedule = Interleaved}},
            {"pp 2 x dp 2, ZB-V, zero 3",
             {.dp = 2, .pp = 2, .vpp = 2, .schedule = ZeroBubbleV, .zero = 3}},
            {"tp 2 x pp 2, sequence, recompute",
             {.tp = 2, .pp = 2, .sequence = true, .recompute = spec::Recompute::Full}},
            {"tp 4 x pp 2", {.tp = 4, .pp = 2}},
            {"tp 2, recompute in units of 2",
             {.tp = 2, .recompute = spec::Recompute::Full, .recompute_layers = 2}},
            {"tp 2 x pp 2, sequence, recompute of attention and mlp",
             {.tp = 2, .pp = 2, .sequence = true, .recompute = spec::Recompute::AttentionMlp}},
            {"tp 2 x pp 2 x dp 2", {.dp = 2, .tp = 2, .pp = 2}},
            {"below 5, one rank", {}, kBelow5},
            {"below 5, tp 2", {.tp = 2}, kBelow5},
            {"below 5, tp 2, sequence, recompute in units of 2",
             {.tp = 2, .sequence = true, .recompute = spec::Recompute::Full, .recompute_layers = 2},
             kBelow5},
            {"below 5, pp 2", {.pp = 2}, kBelow5},
            {"below 5, pp 4 x tp 2, ZB-H1", {.tp = 2, .pp = 4, .schedule = ZeroBubbleH1}, kBelow5},
            {"below 5, pp 2, ZB-V", {.pp = 2, .vpp = 2, .schedule = ZeroBubbleV}, kBelow5},
            {"below 5, dp 2, zero 3", {.dp = 2, .zero = 3}, kBelow5},
            {"only the norm, pp 2 x tp 2", {.tp = 2, .pp = 2, .sequence = true}, kAllButNorm},
            {"only the head, pp 2 x tp 2", {.tp = 2, .pp = 2}, kAllButHead},
            {"only the head, tp 2, sequence", {.tp = 2, .sequence = true}, kAllButHead}};
}

class Division : public testing::TestWithParam<Case> {
    ProductCounter counter_;
};

TEST_P(Division, EveryRankDoesItsPartAsPlanned) {
    const spec::ParallelSpec& p = GetParam().parallel;
    const spec::ModelConfig model = even_model();
    const spec::TrainSpec spec = job_of(p, GetParam().freeze);
    const JobCost cost = job_cost(spec, model, false);
    const plan::PipelineSchedule& schedule = cost.pipeline.schedule;
    const std::vector<plan::Held> held = stage_held(spec, model, cost.pipeline, false);
    const Products products = products_of(spec, model, cost.pipeline.recompute);
    const std::vector<Count> counts = counts_of(spec, model, cost.pipeline);
    const plan::Mesh mesh = need(plan::Mesh::make(p, p.dp * p.tp * p.pp));
    const auto m = static_cast<double>(spec.microbatches());
    double states = 0, flops = 0;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        const Count& count = counts[static_cast<std::size_t>(rank)];
        const plan::Place place = mesh.place(rank);
        const auto stage = static_cast<std::size_t>(place.pp);
        const plan::MemoryBytes& memory = cost.memory[stage];
        const plan::Owned owned = held[stage].owned.value_or(plan::Owned{});
        states += static_cast<double>(count.states);
        // The first rank of a stage holds the largest part of what replicas share.
        const std::int64_t gathered = owned.gathered * 8;
        if (place.dp == 0) {
            EXPECT_EQ(count.weights, memory.weights - gathered);
            EXPECT_EQ(count.states, memory.moments);
        }
        EXPECT_LE(count.states, memory.moments);
        EXPECT_EQ(static_cast<double>(count.flops) * p.tp,
                  m * flops_of(*held[stage].part, products, spec, model));
        flops += static_cast<double>(count.flops);
        const auto own = static_cast<double>(memory.updated);
        const double rounds = p.zero > 1 ? m : 1;
        EXPECT_EQ(sum_of(count, {Site::Bucket}),
                  p.zero == 0 ? 2 * own * (p.dp - 1) / p.dp : own * (p.dp - 1) * rounds);
        const auto sent =
            p.zero > 2
                ? static_cast<double>(spec.microbatches() * owned.gathers + owned.updates) * 8
                : own;
        EXPECT_EQ(sum_of(count, {Site::Weights}), p.zero > 0 ? sent * (p.dp - 1) : 0);
        EXPECT_EQ(
            sum_of(count, {Site::Embedding, Site::RowOutput, Site::ColumnInput, Site::ColumnRows,
                           Site::RowGrad, Site::EmbeddingGrad, Site::HeadRows, Site::HeadInput}),
            static_cast<double>(plan::tensor_bytes(model, spec, *held[stage].part, {})));
        // Bytes that recomputation sends again
        EXPECT_EQ(count.again,
                  static_cast<double>(
                      plan::tensor_bytes(model, spec, *held[stage].part, held[stage].recompute) -
                      plan::tensor_bytes(model, spec, *held[stage].part, {})));
        EXPECT_EQ(count.again > 0,
                  p.tp > 1 && (p.recompute == spec::Recompute::Full ||
                               (p.recompute != spec::Recompute::None && p.sequence)));
        double messages = 0;
        for (const plan::LinkUse& link : cost.report.links)
            if (link.from == place.pp) messages += static_cast<double>(link.messages);
        EXPECT_EQ(sum_of(count, {Site::Activation, Site::Gradient}),
                  messages * static_cast<double>(cost.sent.message) / p.tp);
    }
    // All ranks of a tensor-parallel and pipeline-parallel replica together hold the moments once
    // for each replica, or once in all if the replicas share them. Norms are replicated over tp.
    std::int64_t whole = 0;
    for (const ParameterSpec& one : parameter_specs(model, whole_chunk(model)))
        if (!matches_any(spec.model.freeze, one.name))
            whole += c10::multiply_integers(one.sizes) * (one.sizes.size() == 1 ? p.tp : 1);
    EXPECT_EQ(states, 16.0 * static_cast<double>(whole) * (p.zero > 0 ? 1 : p.dp));
    EXPECT_EQ(flops, m * p.dp * products.all);
    ASSERT_EQ(schedule.pp, p.pp);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Division, testing::ValuesIn(cases()), [](const auto& one) {
    std::string name;
    for (const char c : std::string(one.param.name))
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
    return name;
});

}  // namespace
}  // namespace roll::train
