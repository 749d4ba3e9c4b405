// Opens, plans and reads damaged checkpoints. Each is refused or read without a crash.
#include "worker/convert/read/open.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/convert/convert.hpp"
#include "worker/convert/plan/gather.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

class Damaged : public ::testing::Test {
  protected:
    void SetUp() override {
        const Json sizes{{"hidden_size", 8},        {"num_hidden_layers", 2},
                         {"vocab_size", 16},        {"num_attention_heads", 2},
                         {"intermediate_size", 12}, {"num_key_value_heads", 2}};
        const families::Family& family = *families_.find("llama").value();
        const Json config = families::complete_hf_config(family, sizes).value();
        const Json native = families::native_config(family, config).value();
        const std::vector<std::uint16_t> values(512, 0x3F80);
        std::vector<tensor::TensorView> views;
        const auto tensors = families::native_tensors(family, native).value();
        for (const families::NativeTensor& tensor : tensors)
            for (const families::HfTensor& source : tensor.sources) {
                const auto size = tensor::byte_count(tensor::DType::BF16, source.shape).value();
                views.push_back({{source.name, tensor::DType::BF16, source.shape},
                                 std::as_bytes(std::span(values)).first(size)});
            }
        fs::create_directories(root_ / "hf");
        ASSERT_TRUE(write_file_atomically(root_ / "hf/config.json", config.dump()));
        ASSERT_TRUE(tensor::write_safetensors(root_ / "hf/model.safetensors", views, {}));
        Request request;
        request.source = root_ / "hf";
        request.target = root_ / "mca";
        request.layout.tp = 2;
        ASSERT_TRUE(convert(request, families_, {}));
        request.target = root_ / "dist";
        request.to = Format::TorchDist;
        ASSERT_TRUE(convert(request, families_, {}));
    }

    // Reads everything that a conversion would read. Returns true if nothing was refused.
    bool read_all(const fs::path& directory) {
        const auto source = open_source(directory, families_);
        if (!source) return false;
        const auto plan = make_plan(*source, hf_layout(source->model), tensor::DType::F32);
        if (!plan) return false;
        for (const Comparison& comparison : plan->comparisons)
            if (!compare(*source, comparison)) return false;
        for (const TargetTensor& target : plan->tensors)
            if (!gather(*source, target, [](auto) -> Result<void> { return {}; })) return false;
        return true;
    }

    void damage(const fs::path& directory, const std::string& file, int rounds) {
        const std::string good = read_file(directory / file).value();
        std::uint64_t state = 99;
        const auto random = [&](std::uint64_t below) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            return (state >> 33U) % below;
        };
        int refused = 0;
        for (int round = 0; round < rounds; ++round) {
            std::string bad = good;
            const std::uint64_t reach =
                round % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 4096);
            for (int k = 0; k <= round % 3; ++k)
                bad[random(reach)] = static_cast<char>(random(256));
            if (round % 11 == 0) bad.resize(random(bad.size()));
            std::ofstream(directory / file, std::ios::trunc | std::ios::binary) << bad;
            refused += read_all(directory) ? 0 : 1;
        }
        EXPECT_GT(refused, 0);
        std::ofstream(directory / file, std::ios::trunc | std::ios::binary) << good;
        EXPECT_TRUE(read_all(directory));
    }

    families::Families families_ = families::Families::load().value();
    TemporaryFolder root_;
};

TEST_F(Damaged, AnyByteOfASafetensorsFile) { damage(root_ / "hf", "model.safetensors", 400); }

TEST_F(Damaged, AnyByteOfAHuggingFaceConfig) { damage(root_ / "hf", "config.json", 400); }

TEST_F(Damaged, AnyByteOfATorchFile) {
    damage(root_ / "mca", "iter_0000001/mp_rank_01/model_optim_rng.pt", 600);
}

TEST_F(Damaged, AnyByteOfTheMetadataOfADistributedCheckpoint) {
    damage(root_ / "dist", "iter_0000001/dist_model/.metadata", 600);
}

TEST_F(Damaged, AnyByteOfADistcpFile) {
    damage(root_ / "dist", "iter_0000001/dist_model/__0_0.distcp", 400);
}

TEST_F(Damaged, AnyByteOfAnMcaConfig) { damage(root_ / "mca", "mca_config.json", 600); }

TEST_F(Damaged, AnAdapterWithoutItsMatricesIsNamed) {
    const fs::path adapter = root_ / "adapter";
    fs::create_directory(adapter);
    ASSERT_TRUE(write_file_atomically(adapter / "adapter_config.json", R"({"peft_type":"LORA"})"));
    Request request;
    request.source = root_ / "hf";
    request.target = root_ / "merged";
    request.adapters = {adapter};
    EXPECT_EQ(convert(request, families_, {}).error().message,
              adapter.string() +
                  " contains adapter_config.json, but none of adapter_model.safetensors, "
                  "adapter_model.bin and mca_config.json; copy the adapter again");
}

TEST_F(Damaged, ADirectoryThatTheUserMustNotListIsNamed) {
    constexpr uid_t kNobody = 65534;
    fs::permissions(root_, fs::perms::all);
    const fs::path closed = root_ / "closed";
    fs::create_directory(closed);
    fs::permissions(closed, fs::perms::none);
    const bool is_root = ::geteuid() == 0;
    ASSERT_EQ(::seteuid(is_root ? kNobody : ::geteuid()), 0);
    const auto found = detect_format(closed);
    ASSERT_EQ(::seteuid(is_root ? 0 : ::geteuid()), 0);
    fs::permissions(closed, fs::perms::owner_all);
    EXPECT_EQ(found.error().message, "cannot list " + closed.string() + ": Permission denied");
}

}  // namespace
}  // namespace roll::convert
