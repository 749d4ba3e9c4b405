// Compares every model of tests/oracle/family_steps.py with transformers in float64, to 1e-10:
// logits, loss, every gradient and the gradient norm, and the weights after ten steps of AdamW. One
// model is trained with NEFTune, z-loss and label smoothing.
// Weights, gradients and trained weights are HuggingFace directories, which are read through the
// family files. In bfloat16, gradients must be as close to the true ones as transformers' are.
#include "tests/worker/train/oracle.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/files.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kModels = 21;  // to be raised when another model is added

// The trainer of a model, before its first step.
struct Run {
    Run(const fs::path& model, at::ScalarType dtype, int microbatches,
        const spec::TokenLossSpec& loss = {})
        : config(setup_model(model / "weight").config),
          schedule(plan::one_forward_one_backward(1, microbatches)),
          trainer(config, schedule, {self, self},
                  {.init = {.dtype = dtype}, .clip_grad = 1.0, .loss = loss}) {
        load_weights(model / "weight", chunk().parameters());
    }
    Chunk& chunk() { return trainer.chunks()[0]; }

    spec::ModelConfig config;
    LocalGroup alone{1};
    LocalCommunicator self{alone, 0};
    plan::PipelineSchedule schedule;
    TrainStep trainer;
};

void expect_ten_steps(const fs::path& model) {
    const auto told = tensors_of(model / "told.safetensors");
    const Json objective = parse_json(read_file(model / "objective.json").value()).value();
    Run run(model, at::kDouble, 2, spec::token_loss_spec(objective));
    const spec::ModelConfig& config = run.config;
    Chunk& chunk = run.chunk();
    EXPECT_EQ(plan::parameter_count(config), chunk.parameters().flat_weight.numel());
    const at::Tensor ids = told.at("ids").to(at::kLong), targets = told.at("targets").to(at::kLong);
    expect_close(chunk.logits(ids[0]), told.at("logits"), "logits", kLimit);
    double worst_grad = 0, worst_loss = 0;
    for (std::int64_t step = 0; step < ids.size(0); ++step) {
        const StepResult result = run.trainer.run(two_microbatches(ids, targets, step), 1e-3);
        ASSERT_TRUE(result.updated);
        const double loss = told.at("loss")[step].item<double>();
        const double norm = told.at("norm")[step].item<double>();
        EXPECT_NEAR(result.loss, loss, kLimit * loss) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, kLimit * norm) << "step " << step;
        if (const auto balance = told.find("balance"); balance != told.end()) {
            EXPECT_NEAR(result.experts->loss, balance->second[step].item<double>(), kLimit);
        }
        worst_loss = std::max(worst_loss, std::abs(result.loss - loss) / loss);
        if (step > 0) continue;
        worst_grad = expect_parameters(chunk.parameters().grad,
                                       read_parameters(model / "grad", config), "gradient of");
    }
    const double worst_weight = expect_parameters(
        chunk.parameters().weight, read_parameters(model / "trained", config), "trained");
    std::printf("%-20s worst: loss %.1e, gradient %.1e, weight after ten steps %.1e\n",
                model.filename().c_str(), worst_loss, worst_grad, worst_weight);
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

void expect_narrow_gradients(const fs::path& model) {
    const auto told = tensors_of(model / "told.safetensors");
    Run run(model, at::kBFloat16, 1);
    const Microbatch batch[] = {
        {told.at("ids")[0].to(at::kLong), told.at("targets")[0].to(at::kLong)}};
    run.trainer.run(batch, 0);
    const Parameters truth = read_parameters(model / "true", run.config),
                     theirs = read_parameters(model / "bf16", run.config);
    const auto off = [&](const at::Tensor& gradient, std::size_t i) {
        const at::Tensor& wanted = truth.weight[i];
        return ((gradient.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
    };
    std::vector<double> our_errors, their_errors;
    for (std::size_t i = 0; i < truth.specs.size(); ++i) {
        our_errors.push_back(off(run.chunk().parameters().grad[i], i));
        their_errors.push_back(off(theirs.weight[i], i));
        EXPECT_LT(our_errors[i], 1.25 * their_errors[i] + 1e-3) << truth.specs[i].name;
    }
    std::printf("%-20s bfloat16 gradients, median error: roll %.2e, transformers %.2e\n",
                model.filename().c_str(), median(our_errors), median(their_errors));
}

// Computes with one thread, because several would wait for each other on a busy machine.
class Oracle : public testing::Test {
  protected:
    void SetUp() override { at::set_num_threads(1); }
};

TEST_F(Oracle, TenStepsAreTransformers) {
    EXPECT_GE(oracle_cases().size(), kModels);
    for (const fs::path& model : oracle_cases()) {
        SCOPED_TRACE(model.filename());
        expect_ten_steps(model);
    }
}

TEST_F(Oracle, NarrowGradientsAreAsNearToTheTrueOnes) {
    for (const fs::path& model : oracle_cases()) {
        SCOPED_TRACE(model.filename());
        if (!fs::exists(model / "true")) continue;  // a model with experts
        expect_narrow_gradients(model);
    }
}

TEST_F(Oracle, GeneratesWhatTransformersDoes) {
    const auto tokens = [](const at::Tensor& ids) {
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < ids.numel(); ++i) list.push_back(ids[i].item<std::int64_t>());
        return list;
    };
    for (const fs::path& path : oracle_cases()) {
        SCOPED_TRACE(path.filename());
        const auto told = tensors_of(path / "told.safetensors");
        const spec::ModelConfig config = setup_model(path / "weight").config;
        Chunk model(config, whole_chunk(config), {.dtype = at::kDouble, .draw = false});
        load_weights(path / "weight", model.parameters());
        const at::Tensor prompt = told.at("prompt")[0].to(at::kLong),
                         greedy = told.at("greedy")[0].to(at::kLong);
        EXPECT_EQ(generate(text_model(model), tokens(prompt), {.max_tokens = 24}),
                  tokens(greedy.slice(0, prompt.numel())));
    }
}

}  // namespace
}  // namespace roll::train
