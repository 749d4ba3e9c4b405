// Against Hugging Face transformers in float64, to 1e-10: loss, every gradient and the gradient's
// norm, and the weights after ten steps of AdamW. tests/oracle/llama_steps.py wrote what is read
// here.
#include <cstdlib>
#include <filesystem>
#include <map>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "common/files.hpp"
#include "tests/worker/train/expect.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

constexpr double kLimit = 1e-10;

spec::ModelConfig model_config(bool tied) {
    return {.family = "llama",
            .hidden = 64,
            .layers = 3,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 16,
            .intermediate = 176,
            .vocab = 256,
            .positions_max = 64,
            .tied = tied,
            .norm_eps = 1e-6};
}

class Oracle {
  public:
    explicit Oracle(bool tied) : prefix_(tied ? "tied." : "untied.") {
        const char* folder_name = std::getenv("ROLL_ORACLE_DATA");
        if (folder_name == nullptr) throw std::runtime_error("run by ctest: no ROLL_ORACLE_DATA");
        const std::filesystem::path folder = folder_name;
        const nlohmann::json index =
            nlohmann::json::parse(read_file(folder / "index.json").value());
        std::string bytes = read_file(folder / "data.bin").value();
        const auto size = static_cast<std::int64_t>(bytes.size() / sizeof(double));
        const at::Tensor all = at::from_blob(bytes.data(), {size}, at::kDouble);
        for (const auto& [name, place] : index.items()) {
            const auto shape = place[1].get<std::vector<std::int64_t>>();
            const std::int64_t begin = place[0], numel = c10::multiply_integers(shape);
            tensors_[name] = all.narrow(0, begin, numel).view(shape).clone();
        }
    }

    at::Tensor get(const std::string& name) const { return tensors_.at(prefix_ + name); }

    // Kind (`weight`, `grad`, `trained`) of the parameter that Megatron calls `name`.
    at::Tensor megatron(const std::string& kind, const std::string& name) const {
        const auto part = [&](const std::string& hf) { return get(kind + "." + hf + ".weight"); };
        if (name == "embedding.word_embeddings.weight") return part("model.embed_tokens");
        if (name == "decoder.final_layernorm.weight") return part("model.norm");
        if (name == "output_layer.weight") return part("lm_head");
        const std::size_t dot = name.find('.', std::string("decoder.layers.").size());
        const std::string layer = "model." + name.substr(8, dot - 8) + ".",
                          own = name.substr(dot + 1);
        if (own == "self_attention.linear_qkv.layer_norm_weight")
            return part(layer + "input_layernorm");
        if (own == "mlp.linear_fc1.layer_norm_weight")
            return part(layer + "post_attention_layernorm");
        if (own == "self_attention.linear_proj.weight") return part(layer + "self_attn.o_proj");
        if (own == "mlp.linear_fc2.weight") return part(layer + "mlp.down_proj");
        if (own == "mlp.linear_fc1.weight")
            return at::cat({part(layer + "mlp.gate_proj"), part(layer + "mlp.up_proj")});
        std::vector<at::Tensor> groups;  // qkv: two key heads, each with its queries before it
        for (const std::string head : {"q_proj", "k_proj", "v_proj"})
            groups.push_back(part(layer + "self_attn." + head).view({2, -1, 64}));
        return at::cat(groups, 1).flatten(0, 1);
    }

  private:
    std::string prefix_;
    std::map<std::string, at::Tensor> tensors_;
};

double expect_parameters(const std::vector<at::Tensor>& tensors, const Parameters& p,
                         const Oracle& oracle, const std::string& kind) {
    double worst = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const at::Tensor expected = oracle.megatron(kind, p.specs[i].name);
        expect_close(tensors[i], expected, kind + " " + p.specs[i].name, kLimit);
        worst = std::max(worst, error(tensors[i], expected));
    }
    return worst;
}

void load(const Parameters& p, const Oracle& oracle) {
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        p.weight[i].copy_(oracle.megatron("weight", p.specs[i].name));
}

// On a busy machine more threads only wait for each other.
class Llama : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override { at::set_num_threads(1); }
};

TEST_P(Llama, TenStepsAreTransformers) {
    const bool tied = GetParam();
    const Oracle oracle(tied);
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 2);
    TrainStep trainer(model_config(tied), schedule, {self, self},
                      {.init = {.dtype = at::kDouble}, .clip_grad = 1.0});
    const Parameters& p = trainer.chunks()[0].parameters();
    load(p, oracle);
    const at::Tensor ids = oracle.get("ids").to(at::kLong),
                     targets = oracle.get("targets").to(at::kLong);
    double worst_grad = 0, worst_loss = 0;
    for (std::int64_t step = 0; step < ids.size(0); ++step) {
        std::vector<Microbatch> batch;
        for (const std::int64_t row : {0, 2})
            batch.push_back({ids[step].narrow(0, row, 2).contiguous(),
                             targets[step].narrow(0, row, 2).contiguous()});
        const StepResult result = trainer.run(batch, 1e-2);
        ASSERT_TRUE(result.updated);
        const double loss = oracle.get("loss")[step].item<double>();
        const double norm = oracle.get("norm")[step].item<double>();
        EXPECT_NEAR(result.loss, loss, kLimit * loss) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, kLimit * norm) << "step " << step;
        worst_loss = std::max(worst_loss, std::abs(result.loss - loss) / loss);
        if (step == 0) worst_grad = expect_parameters(p.grad, p, oracle, "grad");
    }
    const double worst_weight = expect_parameters(p.weight, p, oracle, "trained");
    std::printf("worst: loss %.1e, gradient %.1e, weight after ten steps %.1e\n", worst_loss,
                worst_grad, worst_weight);
}

TEST_P(Llama, GeneratesWhatTransformersDoes) {
    const Oracle oracle(GetParam());
    const spec::ModelConfig config = model_config(GetParam());
    Chunk model(config, split_layers(config, 0, 1), {.dtype = at::kDouble});
    load(model.parameters(), oracle);
    const auto tokens = [](const at::Tensor& ids) {
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < ids.numel(); ++i) list.push_back(ids[i].item<std::int64_t>());
        return list;
    };
    const at::Tensor prompt = oracle.get("prompt")[0], greedy = oracle.get("greedy")[0];
    EXPECT_EQ(generate(model, tokens(prompt), {.max_tokens = 24}),
              tokens(greedy.slice(0, prompt.numel())));
}

INSTANTIATE_TEST_SUITE_P(HeadsOutput, Llama, testing::Bool(),
                         [](const auto& i) { return i.param ? "Tied" : "Untied"; });

}  // namespace
}  // namespace roll::train
