// Converts random models to random layouts and back, in memory, and compares the elements.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/worker/layout/every_family.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/plan/gather.hpp"

namespace roll::convert {
namespace {

std::uint64_t below(std::uint64_t limit) { return *rc::gen::inRange<std::uint64_t>(0, limit); }
int power(int exponent_max) { return 1 << *rc::gen::inRange(0, exponent_max + 1); }

// Returns a config with random sizes.
Json random_config() {
    const int groups = power(2);
    const int heads = groups * static_cast<int>(1 + below(3));
    const auto layers = 4 * (1 + below(2));
    Json types = Json::array();
    for (std::uint64_t layer = 1; layer <= layers; ++layer)
        types.push_back(layer % 4 == 0 ? "full_attention" : "linear_attention");
    return layout::config_of_every_family(
        {{"hidden_size", 4 * heads},
         {"num_hidden_layers", layers},
         {"layer_types", types},
         {"linear_num_key_heads", groups},
         {"linear_num_value_heads", groups * static_cast<int>(1 + below(2))},
         {"linear_key_head_dim", 1 + below(3)},
         {"linear_value_head_dim", 1 + below(3)},
         {"num_attention_heads", heads},
         {"num_key_value_heads", groups},
         {"head_dim", 1 + below(5)},
         {"use_qk_norm", below(2) == 0},
         {"tie_word_embeddings", below(2) == 0}});
}

// A checkpoint in memory, with the names and shapes of a layout.
struct Checkpoint {
    Source source;
    std::vector<std::vector<std::byte>> bytes;

    Checkpoint(const Source& like, std::vector<Stored> layout) {
        source.native = like.native;
        source.model = like.model;
        for (Stored& stored : layout) source.tensors.push_back({std::move(stored), {}});
    }
    void add(std::size_t index, std::vector<std::byte> content) {
        bytes.push_back(std::move(content));
        SourceTensor& one = source.tensors[index];
        one.view = tensor::strided(
            {{one.stored.name, tensor::DType::I32, one.stored.shape}, bytes.back()});
    }
};

std::vector<std::byte> gathered(const Source& source, const TargetTensor& target) {
    std::vector<std::byte> all;
    EXPECT_TRUE(gather(source, target, [&](std::span<const std::byte> window) -> Result<void> {
        all.insert(all.end(), window.begin(), window.end());
        return {};
    }));
    return all;
}

Checkpoint made_of(const Source& source, const std::vector<Stored>& layout) {
    Checkpoint made(source, layout);
    const Plan plan = make_plan(source, layout, std::nullopt).value();
    made.bytes.reserve(plan.tensors.size());
    std::map<std::pair<std::string, std::string>, std::size_t> index;
    for (std::size_t i = 0; i < layout.size(); ++i)
        index[{layout[i].file + layout[i].section, layout[i].name}] = i;
    for (const TargetTensor& target : plan.tensors)
        made.add(index.at({plan.files[target.file].path + target.section, target.info.name}),
                 gathered(source, target));
    return made;
}

// Returns a model whose elements have different numbers.
Checkpoint numbered_model(const families::Family& family, const Json& config, const Json& native) {
    Source source;
    source.native = families::native_tensors(family, native, config).value();
    // off, because the elements are whole numbers
    for (families::NativeTensor& tensor : source.native) tensor.add = 0;
    source.model = model_of(source.native);
    Checkpoint made(source, hf_layout(source.model));
    made.bytes.reserve(made.source.tensors.size());
    std::int32_t next = 0;
    for (std::size_t i = 0; i < made.source.tensors.size(); ++i) {
        const std::int64_t count =
            tensor::element_count(made.source.tensors[i].stored.shape).value();
        std::vector<std::int32_t> values;
        for (std::int64_t k = 0; k < count; ++k) values.push_back(next++);
        const auto bytes = std::as_bytes(std::span(values));
        made.add(i, {bytes.begin(), bytes.end()});
    }
    return made;
}

formats::McaConfig random_layout(bool has_experts) {
    formats::McaConfig config;
    config.layout = {.tp = power(2), .pp = power(2), .vpp = power(1)};
    if (has_experts) config.layout.ep = power(2);
    if (has_experts && below(2) == 0) config.layout.etp = power(1);
    if (config.layout.pp > 1 && below(4) == 0) config.layout.first_layers = power(1);
    config.grouped_experts = below(2) == 0;
    config.local_names = below(2) == 0;
    return config;
}

// Returns the checkpoint converted to a layout. Returns nullopt if a size does not divide; the
// error must say so.
std::optional<Checkpoint> cut(const Checkpoint& from, const formats::McaConfig& config) {
    const auto layout = mca_layout(from.source.native, from.source.model, config);
    if (!layout) {
        RC_ASSERT(layout.error().message.find("divi") != std::string::npos);
        return std::nullopt;
    }
    std::vector<Stored> needed;
    for (const Stored& stored : *layout)
        if (!stored.optional) needed.push_back(stored);
    return made_of(from.source, needed);
}

TEST(Layouts, WhatIsTakenApartAnyhowIsPutTogetherAgain) {
    const auto known = families::Families::load().value();
    int done = 0;
    EXPECT_TRUE(rc::check("numbered elements come back to their places", [&] {
        auto entry = known.all().begin();
        std::advance(entry, static_cast<std::ptrdiff_t>(below(known.all().size())));
        const families::Family& family = entry->second;
        RC_LOG() << family.name << '\n';
        const Json config = random_config();
        const auto native = families::native_config(family, config);
        RC_ASSERT(native.has_value());
        const Checkpoint hf = numbered_model(family, config, *native);
        const bool has_experts =
            std::any_of(hf.source.native.begin(), hf.source.native.end(),
                        [](const auto& tensor) { return tensor.expert.has_value(); });
        const auto first = cut(hf, random_layout(has_experts));
        if (!first) return;
        const auto second = cut(*first, random_layout(has_experts));
        const Checkpoint& last = second ? *second : *first;
        const Checkpoint back = made_of(last.source, hf_layout(hf.source.model));
        RC_ASSERT(back.bytes == hf.bytes);
        const Plan replicas = make_plan(last.source, hf_layout(hf.source.model), {}).value();
        for (const Comparison& comparison : replicas.comparisons)
            RC_ASSERT(compare(last.source, comparison).has_value());
        ++done;
    }));
    EXPECT_GT(done, 60);
}

TEST(Layouts, ATensorThatIsNotThereIsAnError) {
    const auto known = families::Families::load().value();
    const families::Family& family = *known.find("llama").value();
    const Json config{{"hidden_size", 8},
                      {"num_hidden_layers", 2},
                      {"num_attention_heads", 2},
                      {"intermediate_size", 8},
                      {"vocab_size", 4}};
    Checkpoint hf = numbered_model(family, config, families::native_config(family, config).value());
    const std::string missing = hf.source.tensors.back().stored.name;
    hf.source.tensors.pop_back();
    const auto plan = make_plan(hf.source, hf_layout(hf.source.model), {});
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message.find(missing), std::string::npos);
}

}  // namespace
}  // namespace roll::convert
