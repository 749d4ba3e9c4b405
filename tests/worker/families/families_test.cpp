#include "worker/families/families.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "worker/families/embedded.hpp"
#include "worker/families/model.hpp"

namespace roll::families {
namespace {

TEST(Families, BuiltInOnesParse) {
    const auto families = Families::load();
    ASSERT_TRUE(families) << families.error().message;
    EXPECT_EQ(families->all().size(), embedded_families().size());
    EXPECT_NE(families->find("gpt5").error().message.find("llama"), std::string::npos);
}

TEST(Families, LlamaGivesTheTrainerItsConfigAndTensors) {
    const auto families = Families::load().value();
    const Family& llama = *families.find("llama").value();
    const Json sizes{{"hidden_size", 64},        {"num_hidden_layers", 3},
                     {"vocab_size", 256},        {"num_attention_heads", 4},
                     {"num_key_value_heads", 2}, {"intermediate_size", 96},
                     {"rope_theta", 500.0}};
    const Json hf = complete_hf_config(llama, sizes).value();
    const Json native = native_config(llama, hf).value();
    const auto config = model_config(llama, native).value();
    EXPECT_EQ(config.head_dim, 16);
    EXPECT_EQ(config.rope_theta, 500.0);
    EXPECT_FALSE(config.tied);
    const auto tensors = native_tensors(llama, native).value();
    ASSERT_EQ(tensors.size(), 1U + 3U * 6U + 2U);
    EXPECT_EQ(tensors[2].name, "decoder.layers.0.self_attention.linear_qkv.weight");
    EXPECT_EQ(tensors[2].shape, (tensor::Shape{128, 64}));
    Json scaled = hf;
    scaled["rope_scaling"] = {{"rope_type", "llama3"}};
    EXPECT_FALSE(model_config(llama, native_config(llama, scaled).value()));
}

// One value of a JSON document, anywhere in it, becomes something else.
void mutate(Json& json, std::uint64_t& state) {
    const auto random = [&](std::uint64_t below) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (state >> 33U) % below;
    };
    Json* place = &json;
    while (place->is_structured() && !place->empty() && random(5) != 0)
        place = &*std::next(place->begin(), static_cast<std::ptrdiff_t>(random(place->size())));
    const Json others[] = {nullptr,
                           -1,
                           0,
                           1e300,
                           std::int64_t{1} << 62U,
                           "",
                           "{layer}",
                           "a * (b",
                           "hidden_size / 7",
                           true,
                           Json::array(),
                           Json::object(),
                           {1, 2},
                           "!moe",
                           "{expert}",
                           {{"layers", "x"}},
                           {{"layers", 3}},
                           "column",
                           "qkv"};
    *place = others[random(std::size(others))];
}

TEST(Families, NoMutatedFileOrConfigCrashes) {
    std::uint64_t state = 5;
    const Json sizes{{"hidden_size", 64},          {"num_hidden_layers", 3},   {"vocab_size", 256},
                     {"intermediate_size", 96},    {"num_attention_heads", 4}, {"num_experts", 4},
                     {"num_local_experts", 4},     {"n_routed_experts", 4},    {"n_group", 1},
                     {"moe_intermediate_size", 8}, {"n_shared_experts", 1},    {"topk_group", 1}};
    std::size_t listed = 0;
    for (int i = 0; i < 6000; ++i) {
        const auto files = embedded_families();
        Json file = Json::parse(files[static_cast<std::size_t>(i) % files.size()].content);
        Json hf = sizes;
        for (int k = 0; k < i % 4; ++k) mutate(file, state);
        if (i % 3 == 0) mutate(hf, state);
        const auto family = parse_family(file.dump(), "mutated");
        if (!family) continue;
        const auto native = native_config(*family, hf);
        if (!native) continue;
        if (const auto tensors = native_tensors(*family, *native, hf)) ++listed;
    }
    EXPECT_GT(listed, 500U);
}

TEST(Families, ADirectoryAddsFamilies) {
    const auto directory =
        std::filesystem::temp_directory_path() / ("families-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory);
    Json added = Json::parse(embedded_families()[0].content);
    added["hf"]["model_type"] = "added";
    std::ofstream(directory / "added.json") << added.dump();
    ::setenv("ROLL_FAMILIES", directory.c_str(), 1);
    EXPECT_TRUE(Families::load().value().find("added"));
    std::ofstream(directory / "added.json") << "{}";
    EXPECT_FALSE(Families::load());
    ::unsetenv("ROLL_FAMILIES");
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace roll::families
