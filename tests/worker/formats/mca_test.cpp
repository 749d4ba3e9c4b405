#include "worker/formats/mca.hpp"

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/formats/bytes_tokenizer.hpp"

namespace roll::formats {
namespace {

TEST(Mca, NamesRanksAsMegatronDoes) {
    EXPECT_EQ(mca_rank_file({.tp = 2}, {.tp = 1}), "iter_0000001/mp_rank_01/model_optim_rng.pt");
    EXPECT_EQ(mca_rank_file({.tp = 16, .pp = 2, .ep = 2}, {.tp = 10, .pp = 1, .ep = 0}),
              "iter_0000001/mp_rank_10_001_000/model_optim_rng.pt");
    EXPECT_EQ(mca_rank_file({.ep = 2}, {.ep = 1}),
              "iter_0000001/mp_rank_00_001/model_optim_rng.pt");
    EXPECT_EQ(mca_chunk_key({.vpp = 2}, 1), "model1");
    EXPECT_EQ(mca_chunk_key({}, 0), "model");
}

TEST(Mca, ReadsBackItsConfig) {
    McaConfig config;
    config.model_type = "toy";
    config.hf_config = {{"model_type", "toy"}, {"rms_norm_eps", 1e-5}, {"name", "\xc3\xa9"}};
    config.native = {{"hidden_size", 64}};
    config.layout = {.tp = 2, .pp = 2, .vpp = 2, .ep = 1, .etp = 1, .account_for_loss = true};
    const std::string text = mca_config_text(config, tensor::DType::BF16);
    const McaConfig read = parse_mca_config(text).value();
    EXPECT_EQ(read.layout, config.layout);
    EXPECT_EQ(read.hf_config, config.hf_config);
    EXPECT_EQ(read.native["hidden_size"], 64);
    EXPECT_EQ(read.native["bf16"], true);
    EXPECT_FALSE(read.local_names);
}

TEST(Mca, ToleratesWhatItDoesNotKnowAndRefusesWhatItCannotUse) {
    const std::string hf = R"("hf_config_json": "{\"model_type\": \"toy\"}")";
    const auto read = [&](const std::string& more) {
        return parse_mca_config("{" + hf + more + "}");
    };
    EXPECT_EQ(read("").value().model_type, "toy");
    EXPECT_EQ(read(R"(, "fp9": [1], "virtual_pipeline_model_parallel_size": null)").value().layout,
              McaLayout{});
    EXPECT_FALSE(read(R"(, "tensor_model_parallel_size": 0)"));
    EXPECT_FALSE(read(R"(, "tensor_model_parallel_size": "2")"));
    EXPECT_FALSE(parse_mca_config("{}"));
    EXPECT_FALSE(parse_mca_config("["));
}

TEST(Mca, PrintsATrackerThatADiskHasFilledWithZeros) {
    const TemporaryFolder folder;
    const auto tracker = folder / "latest_checkpointed_iteration.txt";
    ASSERT_TRUE(write_file_atomically(tracker, std::string(2, '\0')));
    EXPECT_EQ(mca_iteration_directory(folder).error().message,
              tracker.string() + R"( says "\u0000\u0000"; it must contain the number of an )" +
                  "iteration or the word release");
}

TEST(BytesTokenizer, CoversEveryByteOnce) {
    const Json tokenizer = Json::parse(bytes_tokenizer_files()[0].second);
    const Json& vocabulary = tokenizer["model"]["vocab"];
    EXPECT_EQ(vocabulary.size(), 256U);
    EXPECT_EQ(vocabulary["A"], 65);
    EXPECT_EQ(vocabulary["\xc4\xa0"], 32);  // byte-level vocabularies write a space as U+0120
    Json config = Json::object();
    EXPECT_FALSE(has_bytes_tokenizer(config));
    mark_bytes_tokenizer(config);
    EXPECT_TRUE(has_bytes_tokenizer(config));
}

}  // namespace
}  // namespace roll::formats
