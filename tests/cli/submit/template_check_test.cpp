#include "cli/submit/template_check.hpp"

#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "a"}]})";
constexpr const char* kPair = R"({"prompt": "a", "completion": "b"})";

class Templates : public testing::Test {
  protected:
    void SetUp() override {
        fs::remove_all(top_);
        write("plain/tokenizer.json", "{}");
        write("chat/tokenizer.json", "{}");
        write("chat/chat_template.jinja", "{{ messages }}");
        write("broken/tokenizer.json", "{}");
        write("broken/chat_template.jinja", "a\n{% include 'x' %}");
    }
    void TearDown() override { fs::remove_all(top_); }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((top_ / name).parent_path());
        ASSERT_TRUE(write_file_atomically(top_ / name, text));
    }
    // Returns the problems of a job on one file, one in each line.
    std::string told(const std::string& record, const Json& keys,
                     const std::string& file = "data.jsonl") const {
        write(file, record + "\n");
        Json document{{"name", "a"},
                      {"kind", "train"},
                      {"objective", "sft"},
                      {"train", {{"steps", 1}, {"seq_length", 8}, {"global_batch_size", 1}}},
                      {"data", {{"train", {(top_ / file).string()}}}}};
        document.update(keys, true);
        std::string text;
        for (const spec::Problem& problem : template_problems(document.dump()))
            text += problem.path + " " + problem.message + "\n";
        return text;
    }
    Json with(const std::string& tokenizer) const {
        return {{"tokenizer", (top_ / tokenizer).string()}};
    }

    const fs::path top_ =
        fs::path(testing::TempDir()) / ("templates-" + std::to_string(::getpid()));
};

TEST_F(Templates, ConversationsNeedOne) {
    const std::string place = top_ / "plain", file = top_ / "data.jsonl";
    EXPECT_EQ(told(kChat, with("plain")),
              "data.train[0] is " + file + ", which has conversations, and " + place +
                  " has no chat template; set `tokenizer` to a directory whose "
                  "tokenizer_config.json has a chat_template, or that has a chat_template.jinja\n");
    EXPECT_NE(told(kChat, {{"tokenizer", "bytes"}}), "");
    EXPECT_NE(told(kChat, {{"model", {{"from", place}}}}), "") << "the model's own tokenizer";
    EXPECT_EQ(told(kChat, with("chat")), "");
    EXPECT_EQ(told(kPair, with("plain")), "");
    EXPECT_NE(told(kChat, with("broken")).find("chat_template.jinja, line 2: the tag \"include\""),
              std::string::npos)
        << told(kChat, with("broken"));
}

TEST_F(Templates, AnswersNeedOneIfTheyAreMessages) {
    const std::string messages =
        R"({"prompt": [], "chosen": [{"role": "assistant", "content": "b"}], "rejected": []})";
    for (const char* const objective : {"dpo", "kto"}) {
        Json keys = with("plain");
        keys["objective"] = objective;
        EXPECT_NE(told(messages, keys), "") << objective;
        EXPECT_EQ(told(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", keys), "");
        keys.update(with("chat"));
        EXPECT_EQ(told(messages, keys), "") << objective;
    }
}

TEST_F(Templates, WhatThisMachineCannotReadIsLeftToTheNodes) {
    EXPECT_EQ(told(kChat, with("elsewhere")), "");
    EXPECT_EQ(told(kChat, with("plain"), "data.txt"), "");
    EXPECT_NE(told("[" + std::string(kChat) + "]", with("plain"), "data.json"), "");
    Json keys = with("plain");
    keys["data"] = {{"train", {"/nowhere/chats.jsonl"}}};
    EXPECT_EQ(told(kChat, keys), "");
    keys = with("plain");
    keys["objective"] = "pretrain";
    EXPECT_EQ(told(kChat, keys), "");
}

}  // namespace
}  // namespace roll::cli
