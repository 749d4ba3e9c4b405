#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/submit/checks.hpp"
#include "common/files.hpp"
#include "common/json.hpp"
#include "common/spec/check/check_job.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "a"}]})";
constexpr const char* kPair = R"({"prompt": "a", "completion": "b"})";

class Records : public testing::Test {
  protected:
    void SetUp() override {
        fs::remove_all(top_);
        write("weights/config.json", "{}");
        write("plain/tokenizer.json", "{}");
        write("chat/tokenizer.json", "{}");
        write("chat/chat_template.jinja", "{{ messages }}");
        write("bytes/config.json", R"({"roll_tokenizer": "bytes"})");
        write("bytes/tokenizer.json", "{}");
        write("bytes/chat_template.jinja", "{{ messages }}");
        write("broken/tokenizer.json", "{}");
        write("broken/chat_template.jinja", "a\n{% include 'x' %}");
    }
    void TearDown() override { fs::remove_all(top_); }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((top_ / name).parent_path());
        ASSERT_TRUE(write_file_atomically(top_ / name, text));
    }
    // Returns a job on one file.
    Json job(const std::string& record, const Json& keys, const std::string& file) const {
        write(file, record + "\n");
        Json document{
            {"name", "a"},
            {"kind", "train"},
            {"objective", "sft"},
            {"model", {{"from", (top_ / "weights").string()}}},
            {"train",
             {{"steps", 1}, {"seq_length", 8}, {"global_batch_size", 1}, {"micro_batch_size", 1}}},
            {"data", {{"train", {(top_ / file).string()}}}}};
        document.update(keys, true);
        return document;
    }
    // Returns the problems of the job, one in each line.
    std::string told_of(const Json& document) const {
        const spec::ParsedJob parsed = spec::check_job(document, top_);
        std::string text;
        for (const spec::Problem& problem : parsed.problems) ADD_FAILURE() << sentence(problem);
        if (!parsed.ok()) return "";
        for (const spec::Problem& problem : record_problems(parsed.spec))
            text += problem.path + " " + problem.message + "\n";
        return text;
    }
    std::string told(const std::string& record, const Json& keys,
                     const std::string& file = "data.jsonl") const {
        return told_of(job(record, keys, file));
    }
    Json with(const std::string& tokenizer) const {
        return {{"tokenizer", (top_ / tokenizer).string()}};
    }

    const fs::path top_ =
        fs::path(testing::TempDir()) / ("templates-" + std::to_string(::getpid()));
};

TEST_F(Records, ConversationsNeedOne) {
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

// A rank uses `bytes` without the template that lies beside such a model.
TEST_F(Records, AModelOfBytesHasNone) {
    const std::string place = top_ / "bytes";
    const Json model{{"model", {{"from", place}}}};
    EXPECT_NE(told(kChat, model).find("and " + place + " is a model of the tokenizer `bytes`"),
              std::string::npos)
        << told(kChat, model);
    EXPECT_EQ(told(kPair, model), "");
    EXPECT_EQ(told(kChat, with("bytes")), "") << "the tokenizer of another model";
    Json word{{"tokenizer", "bytes"}, {"model", {{"from", (top_ / "chat").string()}}}};
    EXPECT_NE(told(kChat, word).find("the tokenizer `bytes` has no chat template"),
              std::string::npos);
}

TEST_F(Records, AnswersNeedOneIfTheyAreMessages) {
    const std::pair<const char*, bool> records[] = {
        {R"({"prompt": [], "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{}]})",
         true},
        {R"({"conversations": [{"from": "human", "value": "a"}],
             "chosen": {"from": "gpt", "value": "b"}, "rejected": {"from": "gpt", "value": "c"}})",
         true},
        {R"({"instruction": "a", "input": "", "chosen": "b", "rejected": "c"})", true},
        {R"({"prompt": "a", "chosen": "b", "rejected": "c"})", false}};
    for (const auto& [record, needs] : records) {
        std::string line = record;
        std::erase(line, '\n');
        for (const char* const objective : {"dpo", "kto"}) {
            Json keys = with("plain");
            keys["objective"] = objective;
            EXPECT_EQ(told(line, keys).find("has no chat template") != std::string::npos, needs)
                << objective << " " << line << told(line, keys);
            keys.update(with("chat"));
            EXPECT_EQ(told(line, keys), "") << objective;
        }
    }
    const std::string label =
        R"({"messages": [{"role": "assistant", "content": "a"}], "label": true})";
    EXPECT_NE(told(label, {{"objective", "kto"}, {"tokenizer", "bytes"}}), "");
}

TEST_F(Records, TheFirstOneMayBeATextIfTheJobNamesItsField) {
    const std::string record = R"({"story": "a"})";
    EXPECT_EQ(told(record, {{"data", {{"field", "story"}, {"texts", true}}}}), "");
    EXPECT_NE(told(record, Json::object()).find("has no field \"prompt\""), std::string::npos);
    EXPECT_NE(told(R"({"text": "a"})", Json::object()).find("has no field \"prompt\""),
              std::string::npos);
    EXPECT_NE(told(record, {{"objective", "dpo"}, {"data", {{"field", "story"}, {"texts", true}}}}),
              "");
    Json texts = with("plain");
    const std::string alpaca = R"({"instruction": "a", "output": "b", "story": "c"})";
    EXPECT_NE(told(alpaca, texts).find("has no chat template"), std::string::npos);
    texts["data"]["field"] = "story";
    texts["data"]["texts"] = true;
    EXPECT_EQ(told(alpaca, texts), "");
    EXPECT_NE(told(kChat, texts).find("has no chat template"), std::string::npos);
}

TEST_F(Records, TheFirstOneFitsTheObjective) {
    const auto reason = [&](const std::string& record, const Json& keys) {
        const std::string text = told(record, keys), begin = "whose first record is refused: ";
        const std::size_t at = text.find(begin);
        return at == std::string::npos
                   ? text
                   : text.substr(at + begin.size(), text.find(';') - at - begin.size());
    };
    const auto with_objective = [&](const char* objective) {
        Json keys = with("chat");
        keys["objective"] = objective;
        return keys;
    };
    EXPECT_EQ(
        told(kChat, with_objective("dpo")),
        "data.train[0] is " + (top_ / "data.jsonl").string() +
            ", whose first record is refused: has no field \"chosen\"; correct the record, or set "
            "`objective` (it is dpo) or the names of the fields so that they fit the file "
            "(docs/data.md)\n");
    EXPECT_EQ(reason("{", with_objective("sft")), "invalid JSON at byte 2");
    const Json of_empty = job("", with_objective("sft"), "empty.jsonl");
    fs::resize_file(top_ / "empty.jsonl", 0);
    EXPECT_NE(told_of(of_empty).find("which is empty"), std::string::npos);
    EXPECT_EQ(reason(kPair, with_objective("kto")), "has no field \"label\"");
    EXPECT_EQ(reason(kPair, with_objective("pretrain")), "has no field \"text\"");
    const std::string equal = R"({"prompt": "a", "chosen": "b", "rejected": "b"})";
    EXPECT_EQ(reason(equal, with_objective("orpo")),
              "its fields \"chosen\" and \"rejected\" are equal: 'b'");
    EXPECT_EQ(reason(equal, with_objective("sft")), "has no field \"completion\"");
    Json keys = with_objective("sft");
    keys["data"] = {{"completion_field", "chosen"}};
    EXPECT_EQ(reason(equal, keys), "");
    keys = with_objective("dpo");
    keys["data"] = {{"on_bad_line", "skip"}};
    EXPECT_EQ(reason(kPair, keys), "") << "the other lines may fit";
    keys = with_objective("sft");
    keys["data"] = {{"valid", {{"held", (top_ / "held.jsonl").string()}}}};
    write("held.jsonl", R"({"text": "a"})");
    EXPECT_EQ(told(kPair, keys).find("data.valid.held is "), 0U) << told(kPair, keys);
}

// A job of a chain takes its tokenizer from the result of an earlier job, if its model is one.
TEST_F(Records, JobsOfAChainNeedOneToo) {
    Json first = job(kPair, with("plain"), "pairs.jsonl");
    first["name"] = "first";
    Json second = job(kChat, Json::object(), "chats.jsonl");
    second["name"] = "second";
    const auto told_after = [&](const Json& from) {
        Json whole = first;
        second["model"] = {{"from", from}};
        const Json middle = {{"name", "middle"},
                             {"kind", "merge"},
                             {"merge",
                              {{"base", "{first.result}"},
                               {"adapters", {"{first.output}"}},
                               {"target", (top_ / "merged").string()}}}};
        whole["then"] = {middle, second};
        return told_of(whole);
    };
    const std::string problem = "then[1].data.train[0] is " + (top_ / "chats.jsonl").string() +
                                ", which has conversations, and " + (top_ / "plain").string() +
                                " has no chat template";
    for (const char* const from : {"{first.result}", "{previous.result}"})
        EXPECT_EQ(told_after(from).find(problem), 0U) << from << ": " << told_after(from);
    EXPECT_EQ(told_after((top_ / "plain").string()).find(problem), 0U);
    EXPECT_EQ(told_after((top_ / "chat").string()), "");
    first.update(with("chat"));
    for (const char* const from : {"{first.result}", "{previous.result}"})
        EXPECT_EQ(told_after(from), "") << from;
}

// Each job of the chain names the job before it in two keys.
TEST_F(Records, ALongChainIsCheckedAtOnce) {
    Json whole = job(kPair, with("plain"), "pairs.jsonl");
    for (int i = 0; i < 30; ++i) {
        Json next = job(kChat, {{"tokenizer", "{previous.result}"}}, "chats.jsonl");
        next["name"] = "b" + std::to_string(i);
        next["model"] = {{"from", "{previous.result}"}};
        whole["then"].push_back(next);
    }
    const std::string text = told_of(whole);
    EXPECT_EQ(std::ranges::count(text, '\n'), 30) << text;
}

TEST_F(Records, OnlyTheBeginOfAFileIsRead) {
    const std::string bad = "{}\n";
    EXPECT_NE(told(std::string(1 << 20, '\n') + bad, with("plain")), "");
    EXPECT_EQ(told(std::string(17 << 20, '\n') + bad, with("plain")), "");
    const std::string blanks(9 << 20, '\n'), cut = "{" + std::string(8 << 20, ' ') + "}";
    EXPECT_EQ(told(blanks + cut, with("plain")), "")
        << "it is not known whether this record is damaged";
}

TEST_F(Records, AListIsReadAndWhatThisMachineCannotReadIsLeftToTheNodes) {
    EXPECT_NE(told("[" + std::string(kChat) + "]", with("plain"), "data.json"), "");
    EXPECT_EQ(told("[" + std::string(kPair) + "]", with("plain"), "data.json"), "");
    EXPECT_EQ(told("", with("plain")), "");
    Json first = job(kPair, with("plain"), "pairs.jsonl");
    Json second = job(kChat, {{"tokenizer", "{previous.output}/tokenizer"}}, "chats.jsonl");
    first["then"] = {second};
    EXPECT_EQ(told_of(first), "");
    first["then"][0]["tokenizer"] = (top_ / "plain").string();
    EXPECT_NE(told_of(first), "");
}

}  // namespace
}  // namespace roll::cli
