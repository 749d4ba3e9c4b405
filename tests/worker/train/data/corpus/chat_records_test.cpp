// Tests files of conversations: their forms, which of their tokens are learned, and bad lines.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role == 'assistant' %}A{% generation %}{{ m.content }};"
    "{% endgeneration %}{% elif m.role == 'user' %}U{{ m.content }};"
    "{% else %}{{ raise_exception('no role ' + m.role) }}{% endif %}{% endfor %}";

class ChatRecords : public testing::Test {
  protected:
    Result<std::optional<Prepared>> from_lines(const std::string& lines, bool has_template = true) {
        const auto path = folder_ / "chats.jsonl";
        std::ofstream(path, std::ios::binary) << lines;
        return prepared(path, has_template);
    }
    Result<std::optional<Prepared>> prepared(const std::filesystem::path& path,
                                             bool has_template = true) {
        PrepareOptions options;
        options.directory = folder_ / "tokens";
        options.rules.completions = true;
        options.rules.end_token = 1;
        options.rules.render.train_on = train_on_;
        options.rules.names = names_;
        auto parsed = chat::Template::parse(kTemplate);
        if (has_template)
            options.rules.chat = std::make_shared<const chat::ModelTemplate>(
                chat::ModelTemplate{*std::move(parsed), {}, {}, "identity", "t.jinja"});
        return prepare(path, bytes_, options, [](const PrepareProgress&) { return true; });
    }
    // Returns the text of the tokens. Learned tokens stand between [ and ].
    std::string learned(const std::string& lines) {
        const auto made = from_lines(lines);
        if (!made) return made.error().message;
        const TokenFile file = TokenFile::open_indexed((*made)->bin).value();
        std::string text;
        bool inside = false;
        for (std::size_t i = 0; i < file.tokens().size(); ++i) {
            const std::int64_t token = file.tokens()[i];
            if (inside != (token >= 0)) text += inside ? ']' : '[';
            inside = token >= 0;
            text += static_cast<char>(inside ? token : only_read(token));
        }
        return text + (inside ? "]" : "");
    }

    TemporaryFolder folder_;
    chat::Names names_;
    chat::TrainOn train_on_ = chat::TrainOn::Assistant;
    tokenizer::Tokenizer bytes_ = tokenizer::Tokenizer::bytes();
};

TEST_F(ChatRecords, EachFormIsReadAndAnswersAreLearned) {
    EXPECT_EQ(learned(R"({"messages": [{"role": "user", "content": "a"}, )"
                      R"({"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, )"
                      R"({"role": "assistant", "content": "d"}]})"),
              "Ua;A[b;]Uc;A[d;]");
    EXPECT_EQ(learned(R"({"conversations": [{"from": "human", "value": "a"}, )"
                      R"({"from": "gpt", "value": "bb"}]})"),
              "Ua;A[bb;]");
    EXPECT_EQ(learned(R"({"instruction": "add", "input": "1+2", "output": "3"})"),
              "Uadd\n1+2;A[3;]");
    EXPECT_EQ(learned(R"({"prompt": "p", "completion": "c"})"), "p[c\x01]");
}

TEST_F(ChatRecords, ACompletionOfMessagesIsLearnedWhole) {
    const std::string record =
        R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
        R"({"role": "user", "content": "c"}], "completion": [{"role": "assistant", )"
        R"("content": "d"}, {"role": "user", "content": "e"}]})";
    EXPECT_EQ(learned(record), "Ua;Ab;Uc;[Ad;Ue;]");
    train_on_ = chat::TrainOn::Last;
    EXPECT_EQ(learned(record), "Ua;Ab;Uc;A[d;]Ue;");
    train_on_ = chat::TrainOn::Assistant;
    EXPECT_NE(learned(R"({"prompt": [], "completion": [{"role": "user", "content": "e"}]})")
                  .find("none with the role assistant"),
              std::string::npos);
    EXPECT_NE(learned(R"({"prompt": [{"role": "assistant", "content": "b"}], "completion": []})")
                  .find("has an empty list \"completion\""),
              std::string::npos);
}

TEST_F(ChatRecords, TrainOnChoosesWhatIsLearned) {
    const std::string turns =
        R"({"messages": [{"role": "user", "content": "a"}, )"
        R"({"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, )"
        R"({"role": "assistant", "content": "d"}]})";
    const std::string pair = R"({"prompt": "p", "completion": "c"})";
    train_on_ = chat::TrainOn::Last;
    EXPECT_EQ(learned(turns), "Ua;Ab;Uc;A[d;]");
    EXPECT_EQ(learned(pair), "p[c\x01]");
    train_on_ = chat::TrainOn::All;
    EXPECT_EQ(learned(turns), "[Ua;Ab;Uc;Ad;]");
    EXPECT_EQ(learned(pair), "[pc\x01]");
}

TEST_F(ChatRecords, AFileMayHaveOtherNames) {
    names_ = {.columns = {{"messages", "dialog"}, {"system", "rules"}},
              .tags = {{"role", "who"}, {"content", "what"}, {"user", "me"}, {"assistant", "it"}}};
    EXPECT_EQ(
        learned(R"({"prompt": "p", "completion": "c", "dialog": [{"who": "me", "what": "a"}, )"
                R"({"who": "it", "what": "b"}]})"),
        "Ua;A[b;]");
    names_.tags.clear();
    EXPECT_EQ(learned(R"({"dialog": [{"from": "human", "value": "a"}, )"
                      R"({"from": "gpt", "value": "c"}]})"),
              "Ua;A[c;]");
    EXPECT_EQ(learned(R"({"dialog": [{"role": "user", "content": "a"}, )"
                      R"({"role": "assistant", "content": "dd"}]})"),
              "Ua;A[dd;]");
    names_ = {.columns = {{"prompt", "q"}, {"query", "more"}, {"response", "a"}}, .tags = {}};
    EXPECT_EQ(learned(R"({"q": "add", "more": "1+2", "a": "3"})"), "Uadd\n1+2;A[3;]");
}

// A job of an earlier version may have records with both.
TEST_F(ChatRecords, PairsComeBeforeConversations) {
    EXPECT_EQ(learned(R"({"prompt": "p", "completion": "c", "messages": []})"), "p[c\x01]");
}

TEST_F(ChatRecords, BadRecordsAreNamedByLine) {
    const std::string good = R"({"messages": [{"role": "assistant", "content": "b"}]})"
                             "\n";
    const std::string where = "data: " + (folder_ / "chats.jsonl").string() + ", line 2: ";
    const std::string next =
        "; correct this line, or set `data.on_bad_line: skip` to leave out such lines";
    EXPECT_EQ(learned(good + R"({"prompt": "p", "completion": "c"})"),
              where + "has no list \"messages\"" + next);
    EXPECT_EQ(
        learned(good + R"({"messages": [{"role": "user", "content": "x"}]})"),
        where + "has 1 message, none with the role assistant, so there is nothing to learn" + next);
    EXPECT_EQ(learned(good + R"({"messages": [{"role": "gpt", "content": "x"}]})"),
              where +
                  "has 1 message, none with the role assistant, so there is nothing to learn "
                  "(one has the role 'gpt'; data.columns and data.tags give the names of a "
                  "file's roles)" +
                  next);
    EXPECT_EQ(learned(good + R"({"messages": [{"role": "assistant", "content": [{"type": "text", )"
                             R"("text": "a"}, {"type": "image_url", "image_url": "b"}]}]})"),
              where +
                  "message 1 has a part of the type 'image_url' in its content; Roll trains on "
                  "texts only" +
                  next);
    EXPECT_EQ(
        learned(good + R"({"messages": [{"role": "pope", "content": "x"}, )"
                       R"({"role": "assistant", "content": "x"}]})"),
        where + "t.jinja, line 1: the template refuses the conversation: no role pope" + next);
}

TEST_F(ChatRecords, ConversationsNeedATemplate) {
    const auto refused = from_lines(R"({"messages": [{"role": "assistant", "content": "b"}]})",
                                    /*has_template=*/false);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("the tokenizer has no chat template"),
              std::string::npos);
}

TEST_F(ChatRecords, TokensOfConversationsThatAreGoneAreFound) {
    const auto made = from_lines(R"({"messages": [{"role": "assistant", "content": "b"}]})");
    ASSERT_TRUE(made && *made) << made.error().message;
    EXPECT_EQ((*made)->form, chat::Form::Messages);
    std::filesystem::remove(folder_ / "chats.jsonl");
    const auto again = prepared(folder_ / "chats.jsonl");
    ASSERT_TRUE(again && *again) << again.error().message;
    EXPECT_EQ((*again)->bin, (*made)->bin);
}

}  // namespace
}  // namespace roll::data
