#include "cli/submit/adapter_settings.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// A directory with an adapter that PEFT has written.
class AdapterSettings : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(top_ / "adapter");
        write(R"({"peft_type": "LORA", "r": 16, "lora_alpha": 32, "lora_dropout": 0.0,
                 "target_modules": ["q_proj", "v_proj"], "use_rslora": false, "use_dora": true,
                 "rank_pattern": {"v_proj": 4}, "alpha_pattern": {}, "modules_to_save": null,
                 "layers_to_transform": null, "bias": "none"})");
    }
    void write(const std::string& text) {
        ASSERT_TRUE(write_file_atomically(top_ / "adapter/adapter_config.json", text));
    }
    // Returns train.lora of a job; a text if the adapter cannot be read.
    Json lora(const Json& given) {
        Json document = {{"train", {{"lora", given}}}};
        const auto done = use_adapter_settings(document, top_, notes_);
        return done ? document["train"]["lora"] : Json(done.error().message);
    }

    const TemporaryFolder top_;
    std::vector<std::string> notes_;
};

TEST_F(AdapterSettings, AreThoseOfTheAdapterUnlessTheJobSetsThem) {
    EXPECT_EQ(lora({{"from", "adapter"}, {"dropout", 0.1}}),
              Json::parse(R"({"from": "adapter", "dropout": 0.1, "r": 16, "alpha": 32, "dora": true,
                              "targets": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 4}})"));
    EXPECT_EQ(notes_, (std::vector<std::string>{
                          R"(train.lora: r 16, alpha 32, dora true, targets ["q_proj","v_proj"], )"
                          R"(rank_pattern {"v_proj":4}, as in the adapter adapter)"}));
}

TEST_F(AdapterSettings, ThatTheJobContradictsAreRefused) {
    EXPECT_EQ(lora({{"from", "adapter"}, {"r", 8}}),
              "train.lora.r is 8; allowed: 16, as in the adapter adapter from which the job "
              "continues; remove r, so that Roll takes the adapter's value");
    EXPECT_TRUE(lora({{"from", "adapter"}, {"dora", false}}).is_string());
    EXPECT_TRUE(lora({{"from", "adapter"}, {"r", 16}, {"alpha", 32.0}}).is_object());
    Json resumed = {{"kind", "resume"}, {"train", {{"lora", {{"from", "adapter"}, {"r", 8}}}}}};
    EXPECT_TRUE(use_adapter_settings(resumed, top_, notes_));
}

TEST_F(AdapterSettings, ThatAreMissingAreTheDefaultsOfPeft) {
    write(R"({"peft_type": "LORA", "target_modules": ["q_proj"]})");
    EXPECT_EQ(lora({{"from", "adapter"}}),
              Json({{"from", "adapter"}, {"r", 8}, {"alpha", 8}, {"targets", {"q_proj"}}}));
}

TEST_F(AdapterSettings, OfJobsInAChainAreThoseOfTheEarlierJob) {
    const auto job = [](const char* name, const Json& lora) {
        return Json{{"name", name}, {"train", {{"lora", lora}}}};
    };
    Json document = job("sft", {{"from", "adapter"}, {"r", 16}});
    document["then"] = {job("first", {{"from", "{previous.result}"}, {"dropout", 0.1}}),
                        job("second", {{"from", "{sft.result}"}, {"dropout", 0.2}}),
                        job("other", {{"from", "{nobody.result}"}})};
    ASSERT_TRUE(use_adapter_settings(document, top_, notes_));
    const Json &sft = document["train"]["lora"], &then = document["then"];
    EXPECT_EQ(sft["alpha"], 32);
    Json first = sft, second = sft;
    first.update({{"from", "{previous.result}"}, {"dropout", 0.1}});
    second.update({{"from", "{sft.result}"}, {"dropout", 0.2}});
    EXPECT_EQ(then[0]["train"]["lora"], first);
    EXPECT_EQ(then[1]["train"]["lora"], second);
    EXPECT_EQ(then[2]["train"]["lora"], Json({{"from", "{nobody.result}"}}));
}

TEST_F(AdapterSettings, AreLeftAloneWithoutAnAdapter) {
    for (const Json& given : {Json{{"r", 4}}, Json{{"from", "nowhere"}}, Json{{"from", 7}}})
        EXPECT_EQ(lora(given), given);
    EXPECT_TRUE(notes_.empty());
}

TEST_F(AdapterSettings, OfADamagedAdapterAreAnError) {
    write("{");
    const std::string message = lora({{"from", "adapter"}}).dump();
    EXPECT_NE(message.find("train.lora.from: " + (top_ / "adapter").string()), std::string::npos)
        << message;
    EXPECT_NE(message.find("is not a JSON object"), std::string::npos) << message;
}

}  // namespace
}  // namespace roll::cli
