// Compares every model of tests/oracle/family_steps.py with transformers in float64, to 1e-10:
// logits, loss, every gradient and the gradient norm, and the weights after ten steps of AdamW. One
// model is trained with NEFTune, z-loss and label smoothing.
// Weights, gradients and trained weights are HuggingFace directories, which are read through the
// family files. In bfloat16, gradients must be as close to the true ones as transformers' are.
#include "tests/worker/train/oracle.hpp"

#include <cstdlib>
#include <filesystem>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kModels = 18;  // to be raised when another model is added

std::vector<fs::path> models() {
    const char* folder = std::getenv("ROLL_ORACLE_DATA");
    if (folder == nullptr) throw std::runtime_error("run by ctest: no ROLL_ORACLE_DATA");
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

// The oracle's results for one model, by name.
class Told {
  public:
    explicit Told(const fs::path& model)
        : file_(tensor::SafetensorsFile::open(model / "told.safetensors").value()) {}

    at::Tensor get(const std::string& name) const {
        const tensor::TensorView& view = *file_.find(name);
        return at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.info.shape,
                             at::kDouble)
            .clone();
    }
    double number(const std::string& name, std::int64_t step) const {
        return get(name)[step].item<double>();
    }

  private:
    tensor::SafetensorsFile file_;
};

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
    const Told told(model);
    const Json objective = parse_json(read_file(model / "objective.json").value()).value();
    Run run(model, at::kDouble, 2, spec::token_loss_spec(objective));
    const spec::ModelConfig& config = run.config;
    Chunk& chunk = run.chunk();
    EXPECT_EQ(plan::parameter_count(config), chunk.parameters().flat_weight.numel());
    const at::Tensor ids = told.get("ids").to(at::kLong),
                     targets = told.get("targets").to(at::kLong);
    expect_close(chunk.logits(ids[0]), told.get("logits"), "logits", kLimit);
    double worst_grad = 0, worst_loss = 0;
    for (std::int64_t step = 0; step < ids.size(0); ++step) {
        std::vector<Microbatch> batch;
        for (const std::int64_t row : {0, 2}) {
            batch.push_back({ids[step].narrow(0, row, 2).contiguous(),
                             targets[step].narrow(0, row, 2).contiguous()});
            batch.back().first_row = (step * ids.size(1) + row) * ids.size(2);
        }
        const StepResult result = run.trainer.run(batch, 1e-3);
        ASSERT_TRUE(result.updated);
        const double loss = told.number("loss", step), norm = told.number("norm", step);
        EXPECT_NEAR(result.loss, loss, kLimit * loss) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, kLimit * norm) << "step " << step;
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
    const Told told(model);
    Run run(model, at::kBFloat16, 1);
    const Microbatch batch[] = {
        {told.get("ids")[0].to(at::kLong), told.get("targets")[0].to(at::kLong)}};
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
    EXPECT_GE(models().size(), kModels);
    for (const fs::path& model : models()) {
        SCOPED_TRACE(model.filename());
        expect_ten_steps(model);
    }
}

TEST_F(Oracle, NarrowGradientsAreAsNearToTheTrueOnes) {
    for (const fs::path& model : models()) {
        SCOPED_TRACE(model.filename());
        expect_narrow_gradients(model);
    }
}

TEST_F(Oracle, GeneratesWhatTransformersDoes) {
    const auto tokens = [](const at::Tensor& ids) {
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < ids.numel(); ++i) list.push_back(ids[i].item<std::int64_t>());
        return list;
    };
    for (const fs::path& path : models()) {
        SCOPED_TRACE(path.filename());
        const Told told(path);
        const spec::ModelConfig config = setup_model(path / "weight").config;
        Chunk model(config, whole_chunk(config), {.dtype = at::kDouble, .draw = false});
        load_weights(path / "weight", model.parameters());
        const at::Tensor prompt = told.get("prompt")[0].to(at::kLong),
                         greedy = told.get("greedy")[0].to(at::kLong);
        EXPECT_EQ(generate(text_model(model), tokens(prompt), {.max_tokens = 24}),
                  tokens(greedy.slice(0, prompt.numel())));
    }
}

}  // namespace
}  // namespace roll::train
