// Tests that models with experts train in every layout as on one rank, and continue from each
// other's checkpoints. The oracle test compares them with transformers.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/prove/batches.hpp"
#include "worker/train/prove/prove.hpp"
#include "worker/train/prove/report.hpp"

namespace roll::train {
namespace {

// Returns a model of a family as a job file describes it.
ModelSetup model_with_experts(const std::string& family, Json more) {
    more.update({{"hidden_size", 64},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"intermediate_size", 64},
                 {"vocab_size", 257},
                 {"head_dim", 16},
                 {"router_aux_loss_coef", 0.5}});
    ModelSetup setup;
    const families::Families all = need(families::Families::load());
    const families::Family* const found = need(all.find(family));
    setup.hf_config = need(families::complete_hf_config(*found, more));
    setup.native = need(families::native_config(*found, setup.hf_config));
    setup.config = need(families::model_config(*found, setup.native));
    return setup;
}

ModelSetup mixtral() {
    return model_with_experts("mixtral", {{"num_local_experts", 6}, {"num_experts_per_tok", 2}});
}

ModelSetup qwen_with_experts() {
    return model_with_experts("qwen3_moe", {{"num_experts", 7},
                                            {"num_experts_per_tok", 3},
                                            {"moe_intermediate_size", 32},
                                            {"norm_topk_prob", false},
                                            {"tie_word_embeddings", true}});
}

spec::TrainSpec job_with_experts(const spec::ParallelSpec& parallel) {
    spec::TrainSpec spec;
    spec.name = "experts";
    spec.parallel = parallel;
    spec.seq_length = 64;
    spec.micro_batch_size = 2;
    spec.global_batch_size = 16 * parallel.dp;
    return spec;
}

TEST(Experts, LayoutsAndCheckpointsAreProven) {
    at::set_num_threads(1);
    using enum spec::Schedule;
    spec::ParallelSpec again{.dp = 2, .pp = 2, .zero = 1};
    again.schedule = ZeroBubbleH1;
    again.recompute = spec::Recompute::Mlp;
    spec::ParallelSpec full{.dp = 2, .zero = 3};
    full.recompute = spec::Recompute::Full;
    full.recompute_layers = 2;
    struct Case {
        ModelSetup model;
        spec::ParallelSpec parallel;
    };
    const Case cases[] = {{mixtral(), {.dp = 2, .pp = 2, .vpp = 2, .schedule = Interleaved}},
                          {mixtral(), again},
                          {qwen_with_experts(), full},
                          {qwen_with_experts(), {.dp = 3, .zero = 2}},
                          {qwen_with_experts(), {.dp = 1, .tp = 2, .pp = 2}},
                          {mixtral(), {.dp = 2, .tp = 2, .sequence = true, .zero = 1}}};
    for (const Case& one : cases) {
        spec::TrainSpec spec = job_with_experts(one.parallel);
        if (one.parallel.zero == 2) spec.normalize = spec::Normalize::Microbatch;
        const Proof proof = prove(spec, one.model);
        const OrderedJson json = proof_json(spec, proof);
        EXPECT_TRUE(proof.holds()) << one.model.config.family << ": " << failure_text(json);
        EXPECT_TRUE(proof.checkpoints);
        EXPECT_LE(proof.worst.error, kProofLimit);
        std::printf("%s\n", proof_text(json).c_str());
    }
}

// The gradient of an expert without rows is 0, and it is summed over the replicas like any other.
TEST(Experts, AnExpertWithoutRowsHasAGradientOfZero) {
    at::set_num_threads(1);
    spec::ModelConfig config = mixtral().config;
    config.layers = 1;
    config.experts = 24;
    config.experts_per_token = 1;
    config.normalizes_experts = false;
    spec::TrainSpec spec = job_with_experts({.dp = 2});
    spec.seq_length = 8;
    spec.micro_batch_size = 1;
    spec.global_batch_size = 2;
    LocalJob layout{.config = config,
                    .schedule = plan::gpipe(1, 1, 1),
                    .dp = 2,
                    .options = {.init = {.std = 0.2, .dtype = at::kDouble}, .bucket_numel = 2000},
                    .steps = 1,
                    .batch = [&](int step) { return proof_batches(spec, config.vocab, step); }};
    LocalJob one = layout;
    one.schedule = plan::gpipe(1, 1, 2);
    one.dp = 1;
    const Named expected = train_locally(one).values;
    EXPECT_TRUE(differences(train_locally(layout), expected, kProofLimit).empty());
    int without_rows = 0;
    for (const auto& [name, gradient] : expected)
        without_rows += name.starts_with("0.grad.") && name.ends_with("linear_fc2.weight") &&
                        gradient.count_nonzero().item<std::int64_t>() == 0;
    EXPECT_GT(without_rows, 8);
}

TEST(Experts, EachPlantedBugIsFound) {
    at::set_num_threads(1);
    const spec::ParallelSpec sequence{.tp = 2, .sequence = true};
    struct Bug {
        const char* plant;
        const char* first;
        spec::ParallelSpec parallel = {.tp = 2};
    };
    const Bug bugs[] = {
        {"drop|partial gradients", "0.grad.decoder.layers.1.mlp.router.weight"},
        {"drop|row output|1", "0.loss"},
        {"double|row output's gradient|1", "0.grad.decoder.layers.1.mlp.experts.", sequence},
        {"drop|column input's gradient|1", "0.grad.decoder.layers.1."}};
    for (const Bug& bug : bugs) {
        const auto plant = parse_plant(bug.plant);
        ASSERT_TRUE(plant) << bug.plant;
        const spec::TrainSpec spec = job_with_experts(bug.parallel);
        ModelSetup model = mixtral();
        model.native = {};  // without checkpoints
        const Proof proof = prove(spec, model, {*plant});
        ASSERT_TRUE(proof.first) << bug.plant;
        EXPECT_TRUE(proof.first->name.starts_with(bug.first))
            << bug.plant << " " << proof.first->name;
        std::printf("%s: %s\n", bug.plant, proof.first->name.c_str());
    }
}

}  // namespace
}  // namespace roll::train
