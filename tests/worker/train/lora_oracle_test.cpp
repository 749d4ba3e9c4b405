// Compares LoRA training of every model of tests/oracle/lora_steps.py with PEFT in float64, to
// 1e-10: loss and gradient norm of ten steps of AdamW, and after them the logits and the adapter
// file, tensor by tensor under PEFT's names. A packed base has the values of bitsandbytes, bit for
// bit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/files.hpp"
#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/oracle.hpp"
#include "worker/families/model.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/ops/packed.hpp"
#include "worker/train/save/adapter_files.hpp"
#include "worker/train/save/part_writer.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Compares the values of the packed weights with those of bitsandbytes.
void expect_values(const fs::path& path, const spec::LoraSpec& lora) {
    const auto weights = tensors_of(path / "weight/model.safetensors");
    for (const auto& [name, values] : tensors_of(path / "packed.safetensors")) {
        const at::Tensor& weight = weights.at(name);
        const spec::PackedForm form{lora.base, lora.double_quantization, 0, weight.size(1)};
        const at::Tensor bytes = ops::packed(form, weight, {1, {weight.size(0)}});
        EXPECT_TRUE(ops::unpacked(form, bytes, at::kDouble).equal(values)) << name;
    }
}

// Returns train.lora with the settings of a PEFT config and of the form of the base.
Json job_of(const Json& config, const Json& base) {
    const Json targets = config["target_modules"];
    const bool all = targets.is_array() && targets.size() == spec::kLoraPlaces.size();
    Json job = {{"r", config["r"]},
                {"alpha", config["lora_alpha"]},
                {"rslora", config["use_rslora"]},
                {"targets", all ? Json("all-linear") : targets},
                {"exclude", config["exclude_modules"]},
                {"layers", config["layers_to_transform"]},
                {"layers_pattern", config["layers_pattern"]},
                {"rank_pattern", config["rank_pattern"]},
                {"alpha_pattern", config["alpha_pattern"]},
                {"dropout", config["lora_dropout"]},
                {"dora", config["use_dora"]},
                {"modules_to_save", config["modules_to_save"]}};
    job.update(base);
    return job;
}

void expect_steps(const fs::path& path) {
    const auto told = tensors_of(path / "told.safetensors");
    ModelSetup model = setup_model(path / "weight");
    const Json config = parse_json(read_file(path / "start/adapter_config.json").value()).value();
    const Json base = parse_json(read_file(path / "base.json").value()).value();
    model.config.lora = spec::resolve_lora(spec::lora_spec(job_of(config, base)),
                                           families::modules_of(native_tensors(model)))
                            .value();
    if (!base.empty()) expect_values(path, model.config.lora);
    model.config.lora.lr_ratio = told.at("lr_ratio").item<double>();
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 2);
    TrainStep trainer(model.config, schedule, {self, self},
                      {.init = {.dtype = at::kDouble, .draw = false}, .clip_grad = 1.0});
    load_weights(path / "weight", trainer);
    read_adapter(path / "start", trainer, model);
    Chunk& chunk = trainer.chunks()[0];
    if (base.empty()) {  // else flat_weight is without the packed weights
        EXPECT_EQ(plan::parameter_count(model.config), chunk.parameters().flat_weight.numel());
    }
    const bool trains_embedding = !chunk.parameters().specs[0].frozen;
    const at::Tensor before = chunk.parameters().weight[0].clone();
    const at::Tensor ids = told.at("ids").to(at::kLong), targets = told.at("targets").to(at::kLong);
    double worst_loss = 0, worst_weight = 0;
    for (std::int64_t step = 0; step < ids.size(0); ++step) {
        const StepResult result = trainer.run(two_microbatches(ids, targets, step), 1e-3);
        ASSERT_TRUE(result.updated);
        const double loss = told.at("loss")[step].item<double>();
        const double norm = told.at("norm")[step].item<double>();
        EXPECT_NEAR(result.loss, loss, kLimit * loss) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, kLimit * norm) << "step " << step;
        worst_loss = std::max(worst_loss, std::abs(result.loss - loss) / loss);
    }
    EXPECT_EQ(chunk.parameters().weight[0].equal(before), !trains_embedding);
    expect_close(chunk.logits(ids[0]), told.at("logits"), "logits", kLimit);
    const fs::path saved = path / "saved";
    fs::create_directories(saved);
    PartWriter writer(trainer, model, plan_part(trainer, {}, 0), 0, 1 << 20);
    writer.start(saved, {});
    writer.wait();
    ASSERT_FALSE(writer.has_failed());
    const auto ours = tensors_of(saved / "adapter_model.safetensors");
    const auto theirs = tensors_of(path / "trained/adapter_model.safetensors");
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [name, tensor] : theirs) {
        expect_close(ours.at(name), tensor, name, kLimit);
        worst_weight = std::max(worst_weight, error(ours.at(name), tensor));
    }
    std::printf("%-8s worst: loss %.1e, adapter %.1e\n", path.filename().c_str(), worst_loss,
                worst_weight);
}

TEST(LoraOracle, TenStepsArePefts) {
    at::set_num_threads(1);
    EXPECT_EQ(oracle_cases().size(), 10U);
    for (const fs::path& model : oracle_cases()) {
        SCOPED_TRACE(model.filename());
        expect_steps(model);
    }
}

}  // namespace
}  // namespace roll::train
