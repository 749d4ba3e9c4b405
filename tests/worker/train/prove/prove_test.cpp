// Tests that the layouts of jobs are proven, and that a bug in their communication is found and
// named by its tensor. The in-process fabric simulates each bug; the trainer is unchanged.
#include "worker/train/prove/prove.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "common/spec/train/read_lora.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/prove/report.hpp"

namespace roll::train {
namespace {

spec::ModelConfig model_of_job() {
    return {.family = "llama",
            .hidden = 512,
            .layers = 8,
            .heads = 16,
            .kv_heads = 4,
            .head_dim = 32,
            .intermediate = 1024,
            .vocab = 50257,
            .positions_max = 1024};
}

// Features of other families.
spec::ModelConfig rich_model() {
    spec::ModelConfig config = model_of_job();
    config.tied = config.qkv_bias = config.out_bias = config.qk_norm = true;
    config.post_norms = config.norm_adds_one = true;
    config.embedding_scale = 22.5;
    config.attention_soft_cap = 50;
    config.logit_soft_cap = 30;
    config.window = 128;
    for (int i = 0; i < config.layers; ++i) config.sliding_layers.push_back(i % 2 == 0);
    config.activation = spec::Activation::GeluTanh;
    return config;
}

spec::TrainSpec job_of(const spec::ParallelSpec& parallel) {
    spec::TrainSpec spec;
    spec.name = "job";
    spec.parallel = parallel;
    spec.seq_length = 512;
    spec.micro_batch_size = 4;
    spec.global_batch_size = 64 * parallel.dp;
    return spec;
}

const spec::ParallelSpec kAll{.dp = 2, .tp = 2, .pp = 2};

// Returns a model that no family has. It has no files, so its checkpoints cannot be proven.
ModelSetup without_files(const spec::ModelConfig& config) {
    ModelSetup setup;
    setup.config = config;
    return setup;
}

void expect_proven(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    at::set_num_threads(1);
    const Proof proof = prove(spec, without_files(config));
    const OrderedJson json = proof_json(spec, proof);
    EXPECT_TRUE(proof.holds()) << failure_text(json);
    EXPECT_GT(proof.tensors, 0U);
    EXPECT_LE(proof.worst.error, kProofLimit);
    std::printf("%s\n", proof_text(json).c_str());
}

TEST(Prove, EveryAxisAndScheduleIsProven) {
    using enum spec::Schedule;
    spec::ParallelSpec p = kAll;
    expect_proven(job_of(p), model_of_job());
    p.sequence = true;
    p.zero = 3;
    expect_proven(job_of(p), rich_model());
    expect_proven(job_of({.dp = 3, .zero = 1}), rich_model());
    expect_proven(job_of({.pp = 2, .vpp = 2, .schedule = ZeroBubbleV}), rich_model());
    expect_proven(job_of({.dp = 2, .pp = 4, .vpp = 2, .schedule = Interleaved}), model_of_job());
    expect_proven(job_of({.pp = 4, .schedule = ZeroBubbleH1, .first_layers = 1, .last_layers = 1}),
                  rich_model());
    expect_proven(job_of({}), rich_model());
}

// Returns a model of a family as a job file describes it.
ModelSetup model_of(const std::string& family, const Json& more) {
    Json sizes{{"hidden_size", 512},
               {"num_hidden_layers", 8},
               {"num_attention_heads", 16},
               {"num_key_value_heads", 4},
               {"intermediate_size", 1024},
               {"vocab_size", 50257},
               {"head_dim", 32}};
    if (more.is_object()) sizes.update(more);
    ModelSetup setup;
    const families::Families all = need(families::Families::load());
    const families::Family* const found = need(all.find(family));
    setup.hf_config = need(families::complete_hf_config(*found, sizes));
    setup.native = need(families::native_config(*found, setup.hf_config));
    setup.config = need(families::model_config(*found, setup.native));
    return setup;
}

TEST(Prove, CheckpointsOfEveryAxisAreProven) {
    at::set_num_threads(1);
    using enum spec::Schedule;
    struct Case {
        const char* family;
        Json more;
        spec::ParallelSpec parallel;
    };
    spec::ParallelSpec shared = kAll;
    shared.sequence = true;
    shared.zero = 3;
    const Case cases[] = {
        {"llama", {{"tie_word_embeddings", true}}, kAll},
        {"qwen3", {{"tie_word_embeddings", false}}, shared},
        {"qwen2", {{"tie_word_embeddings", true}}, {.pp = 2, .vpp = 2, .schedule = ZeroBubbleV}},
        {"gemma2", {}, {.dp = 2, .pp = 4, .vpp = 2, .schedule = Interleaved}},
        {"llama", {}, {.dp = 3, .zero = 2}},
        {"llama", {}, {.pp = 4, .schedule = ZeroBubbleH1, .first_layers = 1, .last_layers = 1}}};
    for (const Case& one : cases) {
        const spec::TrainSpec spec = job_of(one.parallel);
        const Proof proof = prove(spec, model_of(one.family, one.more));
        const OrderedJson json = proof_json(spec, proof);
        EXPECT_TRUE(proof.holds()) << one.family << ": " << failure_text(json);
        EXPECT_TRUE(proof.checkpoints);
        EXPECT_LE(proof.worst.error, kProofLimit);
    }
}

TEST(Prove, AdaptersDocumentsAndFrozenParametersAreProven) {
    spec::ModelConfig adapted = model_of_job();
    adapted.lora = spec::lora_spec({{"r", 16}, {"alpha", 32}, {"rank_pattern", {{"o_proj", 8}}}});
    spec::TrainSpec spec = job_of({.dp = 2, .tp = 2, .pp = 2, .zero = 1});
    spec.data.documents_apart = spec.data.completions = true;
    spec.normalize = spec::Normalize::Microbatch;
    expect_proven(spec, adapted);
    spec = job_of(kAll);
    spec.model.freeze = {"embedding.*", "decoder.layers.[0-3].*"};
    spec.optimizer.decays = {{"*layers.7.*", false}};
    spec.optimizer.clip_grad = 0;
    expect_proven(spec, model_of_job());
}

struct Bug {
    const char* plant;
    const char* first;         // what is to be found first
    const char* first_tensor;  // beginning of the name of the first tensor
    spec::ParallelSpec parallel = kAll;
};

TEST(Prove, EachPlantedBugIsFoundByItsTensor) {
    at::set_num_threads(1);
    const spec::ParallelSpec sequence{.dp = 1, .tp = 2, .pp = 1, .sequence = true};
    const spec::ParallelSpec stages{.dp = 1, .pp = 2};
    const spec::ParallelSpec shared{.dp = 2, .zero = 1};
    const Bug bugs[] = {
        {"average|gradients", "0.grad.", "0.grad."},
        {"drop|gradients|0|dp", "0.grad.", "0.grad."},
        {"drop|token count", "0.loss", "0.grad."},
        {"drop|loss and gradient norm||world", "0.loss", ""},
        {"drop|partial gradients", "0.grad.", "0.grad.decoder.layers.1.self_attention."},
        {"drop|tied embedding's gradient", "0.grad.", "0.grad.embedding.word_embeddings.weight"},
        {"double|tied embedding's gradient", "0.grad.", "0.grad.embedding.word_embeddings.weight"},
        {"drop|loss and gradient norm||tp", "0.grad_norm", "0.weight.", sequence},
        {"drop|loss and gradient norm||pp", "0.loss", "0.weight.", stages},
        {"drop|vocabulary-parallel loss", "0.loss", "0.grad."},
        {"drop|column input's gradient|0", "0.grad.", "0.grad.decoder.layers.0."},
        {"double|row output|1", "0.loss", "0.grad."},
        {"delay|gradient of an activation", "0.grad.", "0.grad.decoder.layers.0."},
        {"delay|activation", "0.loss", "0.grad."},
        {"drop|evaluation||dp", "valid.", ""},
        {"drop|partial gradients", "0.grad.", "0.grad.decoder.final_layernorm.weight", sequence},
        {"drop|row output's gradient", "0.grad.", "0.grad.decoder.layers.1.", sequence},
        {"drop|weights", "0.weight.", "0.weight.", shared},
        {"drop|loss and gradient norm||dp", "0.loss", "0.weight.", shared}};
    for (const Bug& bug : bugs) {
        const auto plant = parse_plant(bug.plant);
        ASSERT_TRUE(plant) << bug.plant;
        const spec::TrainSpec spec = job_of(bug.parallel);
        const Proof proof = prove(spec, without_files(rich_model()), {*plant});
        ASSERT_FALSE(proof.holds()) << bug.plant;
        std::printf("%s: %s\n", bug.plant, failure_text(proof_json(spec, proof)).c_str());
        ASSERT_TRUE(proof.first) << bug.plant;
        EXPECT_TRUE(proof.first->name.starts_with(bug.first))
            << bug.plant << " " << proof.first->name;
        if (*bug.first_tensor == '\0') continue;
        ASSERT_TRUE(proof.first_tensor) << bug.plant;
        EXPECT_TRUE(proof.first_tensor->name.starts_with(bug.first_tensor))
            << bug.plant << " " << proof.first_tensor->name;
    }
}

// Without sequence parallelism and norms of heads, each tensor-parallel rank has whole gradients.
TEST(Prove, ABugInATransferThatNoRankMakesIsAnError) {
    const auto plant = parse_plant("drop|partial gradients");
    ASSERT_TRUE(plant);
    const spec::TrainSpec spec = job_of({.dp = 1, .tp = 2, .pp = 1});
    try {
        prove(spec, without_files(model_of_job()), {*plant});
        FAIL();
    } catch (const RankFailure& failure) {
        EXPECT_EQ(failure.status(), 1);
        EXPECT_EQ(std::string(failure.what()),
                  "the planted bug changed nothing, because the ranks of this layout make no such "
                  "transfer; plant another bug, or use another layout");
    }
}

TEST(Prove, TheReportNamesEveryQuantity) {
    Proof proof;
    proof.job.spec = job_of({});
    for (const auto& [name, words] :
         {std::pair{"2.norms.embedding.update", "step 3, norm of embedding.update"},
          {"0.exp_avg_sq_row.a", "step 1, exp_avg_sq_row of a"},
          {"valid.loss", "evaluation, loss"}}) {
        proof.worst = {name, 1e-16};
        const std::string text = proof_text(proof_json(job_of({}), proof));
        EXPECT_NE(text.find(words), std::string::npos) << text;
    }
}

TEST(Prove, APlantIsReadFromWords) {
    const auto plant = parse_plant("regroup|row output|1|tp");
    ASSERT_TRUE(plant);
    EXPECT_EQ(plant->kind, Plant::Kind::Regroup);
    EXPECT_EQ(plant->site, Site::RowOutput);
    EXPECT_EQ(plant->layer, 1);
    EXPECT_EQ(plant->group, "tp");
    for (const char* words : {"", "drop", "lose|gradients", "drop|nothing", "drop|gradients|x"})
        EXPECT_FALSE(parse_plant(words)) << words;
}

}  // namespace
}  // namespace roll::train
