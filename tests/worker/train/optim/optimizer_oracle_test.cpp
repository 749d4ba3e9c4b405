// Compares every rule of the update with torch.optim and, for Lion, with its paper's formula, in
// float64 to 1e-12 (tests/oracle/optimizer_steps.py); Adafactor's oracle is transformers', that of
// 8-bit states is written from bitsandbytes' formulas. The matrices of q, k and v, and of gate and
// up, are fused as in a layer. Then: float32 and bfloat16 follow float64.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/tensor/safetensors.hpp"
#include "tests/worker/train/expect.hpp"
#include "worker/train/optim/eight_bit.hpp"
#include "worker/train/optim/optimizer.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using Named = std::map<std::string, at::Tensor>;

const std::string kLayer = "decoder.layers.0.";
// The names of the oracle's parameters that are one parameter here
const std::map<std::string, std::vector<std::string>> kFused{
    {"embedding.word_embeddings.weight", {"embed"}},
    {kLayer + "self_attention.linear_qkv.layer_norm_weight", {"norm"}},
    {kLayer + "self_attention.linear_qkv.weight", {"q", "k", "v"}},
    {kLayer + "self_attention.linear_proj.weight", {"o"}},
    {kLayer + "mlp.linear_fc1.weight", {"gate", "up"}}};

const spec::ModelConfig kConfig = [] {
    spec::ModelConfig config{};
    config.hidden = 16, config.heads = 4, config.kv_heads = 2, config.head_dim = 6;
    config.intermediate = 20;
    return config;
}();

const std::map<std::string, spec::OptimizerSpec> kCases = [] {
    std::map<std::string, spec::OptimizerSpec> cases;
    const auto add = [&](const char* name, const Json& options) {
        spec::OptimizerSpec one{.weight_decay = 0.1, .decays = {}};
        EXPECT_TRUE(spec::read_update_rule(options, one));
        one.beta2 = options.value("beta2", one.beta2);
        cases[name] = one;
    };
    add("adam", {{"kind", "adam"}});
    add("sgd", {{"kind", "sgd"}});
    add("sgd-momentum", {{"kind", "sgd"}, {"momentum", 0.9}});
    add("sgd-nesterov", {{"kind", "sgd"}, {"momentum", 0.9}, {"nesterov", true}});
    add("lion", {{"kind", "lion"}, {"beta2", 0.99}});
    add("muon", {{"kind", "muon"}});
    add("muon-match", {{"kind", "muon"}, {"update_scale", "match_rms_adamw"}});
    add("muon-plain", {{"kind", "muon"}, {"nesterov", false}, {"momentum", 0.8}, {"ns_steps", 3}});
    add("adafactor", {{"kind", "adafactor"}});
    add("adafactor-scaled", {{"kind", "adafactor"},
                             {"scale_parameter", true},
                             {"clip_threshold", 0.5},
                             {"decay_rate", -0.5}});
    add("adamw8", {{"kind", "adamw_8bit"}});
    add("adamw-bf16", {{"kind", "adamw_bf16"}});
    add("ema", {{"kind", "adam"}});
    cases.at("ema").ema = {.decay = 0.7, .every = 2};
    return cases;
}();

Named read(const fs::path& path) {
    Named tensors;
    const auto file = tensor::SafetensorsFile::open(path).value();
    for (const tensor::TensorView& view : file.tensors())
        tensors[view.info.name] =
            at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.info.shape, at::kDouble)
                .clone();
    return tensors;
}

// Joins the oracle's parameters to one parameter, as the layer holds it: qkv by key groups.
at::Tensor fused(const std::vector<at::Tensor>& parts) {
    if (parts.size() < 3) return at::cat(parts);
    std::vector<at::Tensor> groups;
    for (const at::Tensor& part : parts)
        groups.push_back(part.view({kConfig.kv_heads, -1, part.size(1)}));
    return at::cat(groups, 1).flatten(0, 1).contiguous();
}

at::Tensor of_oracle(const Named& told, const std::string& prefix, const std::string& name,
                     std::int64_t step = -1) {
    std::vector<at::Tensor> parts;
    for (const std::string& part : kFused.at(name)) {
        const at::Tensor tensor = told.at(prefix + part);
        parts.push_back(step < 0 ? tensor : tensor[step]);
    }
    return fused(parts);
}

// Makes the updates and returns the main weights, then exchanges them with their average if the
// optimizer has one.
Named trained(const Named& told, const spec::OptimizerSpec& options, at::ScalarType dtype) {
    std::vector<ParameterSpec> specs;
    for (const auto& [name, ignored] : kFused)
        specs.push_back({name, of_oracle(told, "start.", name).sizes().vec()});
    Parameters p = make_parameters(specs, {.dtype = dtype, .draw = false});
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const at::Tensor to = main_to_write(p, i);
        to.copy_(of_oracle(told, "start.", specs[i].name));
        set_main(p, i, to);
    }
    Optimizer optimizer(p, options, kConfig);
    for (std::int64_t step = 0; step < told.at("lr").numel(); ++step) {
        for (std::size_t i = 0; i < specs.size(); ++i)
            p.grad[i].copy_(of_oracle(told, "grad.", specs[i].name, step));
        optimizer.step(told.at("lr")[step].item<double>(), told.at("clip")[step].item<double>());
    }
    Named weights;
    const auto note = [&](const std::string& prefix) {
        for (std::size_t i = 0; i < specs.size(); ++i) {
            const at::Tensor& to = weights[prefix + specs[i].name] =
                at::empty(specs[i].sizes, main_type(p));
            copy_main(p, i, to);
        }
    };
    note("end.");
    if (options.ema.decay == 0) return weights;
    optimizer.swap_average();
    note("mean.");
    return weights;
}

TEST(OptimizerOracle, EveryRuleIsTorchs) {
    at::set_num_threads(1);
    const char* folder = std::getenv("ROLL_ORACLE_DATA");
    ASSERT_NE(folder, nullptr) << "run by ctest: no ROLL_ORACLE_DATA";
    for (const auto& [name, options] : kCases) {
        SCOPED_TRACE(name);
        const Named told = read(fs::path(folder) / (name + ".safetensors"));
        const Named wide = trained(told, options, at::kDouble);
        double worst = 0, narrow = 0;
        for (const auto& [key, weight] : wide) {
            const std::string prefix = key.substr(0, key.find('.') + 1);
            const std::string parameter = key.substr(prefix.size());
            const at::Tensor expected = of_oracle(told, prefix, parameter);
            expect_close(weight, expected, key, 1e-12);
            EXPECT_GT(error(weight, of_oracle(told, "start.", parameter)), 1e-3) << key;
            worst = std::max(worst, error(weight, expected));
        }
        // Rounding may move a value to the next code or the next bfloat16 number.
        const double allowed = name.starts_with("adamw") ? 1e-2 : 1e-5;
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
            for (const auto& [parameter, weight] : trained(told, options, dtype)) {
                const double off = error(weight.to(at::kDouble), wide.at(parameter));
                EXPECT_LT(off, allowed) << parameter << " " << dtype;
                narrow = std::max(narrow, off);
            }
        std::printf("%-12s worst: float64 %.1e, narrower types %.1e\n", name.c_str(), worst,
                    narrow);
    }
}

// The states of 8 bits follow bitsandbytes' codes: 7 powers of ten with 127 values of each sign.
TEST(CodeTable, HasTheValuesOfTheDynamicMap) {
    for (const bool is_signed : {true, false}) {
        const auto table = code_table(is_signed);
        EXPECT_TRUE(std::ranges::is_sorted(table));
        EXPECT_EQ(std::ranges::count(table, 0.F), 1);
        EXPECT_EQ(table.back(), 1);
        EXPECT_FLOAT_EQ(table.front(), is_signed ? -0.99296875F : 0);
        EXPECT_FLOAT_EQ(table[is_signed ? 128 : 1], is_signed ? 5.5e-7F : 3.25e-7F);
        EXPECT_FLOAT_EQ(table[254], is_signed ? 0.99296875F : 0.996484375F);
    }
}

TEST(OptimizerGroups, TheFirstGroupThatMatchesCounts) {
    spec::OptimizerSpec options{.lr = 1e-2, .weight_decay = 0.1, .decays = {}};
    const Json groups = Json::array({{{"match", "*norm*|embedding.*"}, {"weight_decay", 0.5}},
                                     {{"match", "*layer_norm*"}, {"lr", 1}},
                                     {{"match", "*linear_proj*"}, {"lr", 3e-2}},
                                     {{"match", "*lora_B*"}, {"lr_scale", 0.5}}});
    ASSERT_TRUE(spec::read_update_rule({{"groups", groups}}, options));
    const auto rule = [&](const std::string& name, std::vector<std::int64_t> sizes) {
        return rule_of(options, {.name = name, .sizes = std::move(sizes)}, 16);
    };
    const ParameterRule norm = rule(kLayer + "mlp.linear_fc1.layer_norm_weight", {4});
    EXPECT_EQ(norm.weight_decay, 0.5);
    EXPECT_EQ(norm.lr_scale, 1);
    EXPECT_DOUBLE_EQ(rule(kLayer + "self_attention.linear_proj.weight", {4, 4}).lr_scale, 3);
    EXPECT_EQ(rule(kLayer + "mlp.linear_fc1.lora_B.up_proj.weight", {4, 4}).lr_scale, 8);
    EXPECT_EQ(rule(kLayer + "mlp.linear_fc1.lora_A.up_proj.weight", {4, 4}),
              (ParameterRule{.decays = true}));
}

// A group's settings move its parameters as a run with these settings for all does.
TEST(OptimizerGroups, MoveTheirParametersOnly) {
    const std::vector<ParameterSpec> specs{{"a.weight", {3, 5}, 1, 1}, {"b.norm", {7}, 1, 1}};
    const auto moved = [&](const spec::OptimizerSpec& options) {
        Parameters p = make_parameters(specs, {.dtype = at::kDouble});
        Optimizer optimizer(p, options);
        for (const at::Tensor& grad : p.grad)
            grad.copy_(at::linspace(-1, 1, grad.numel()).view(grad.sizes()));
        optimizer.step(1e-2, 1);
        optimizer.step(2e-2, 1);
        return p.main;
    };
    spec::OptimizerSpec plain{.lr = 1e-2, .weight_decay = 0.3, .decays = {}}, grouped = plain;
    spec::OptimizerSpec faster = plain;
    faster.decays = {{"*", true}};
    faster.groups = {{.globs = {"*"}, .lr = std::nullopt, .lr_scale = 3, .weight_decay = 0.7}};
    grouped.groups = {{.globs = {"x", "*norm"}, .lr = 3e-2, .weight_decay = 0.7}};
    const auto usual = moved(plain), seen = moved(grouped), fast = moved(faster);
    EXPECT_TRUE(seen[0].equal(usual[0]));
    expect_close(seen[1], fast[1], "of the group");
    EXPECT_GT(error(seen[1], usual[1]), 1e-3);
}

}  // namespace
}  // namespace roll::train
