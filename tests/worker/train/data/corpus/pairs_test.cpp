// Tests lines of preference pairs: their forms, which tokens are learned, how pairs become windows,
// and bad lines.
#include <algorithm>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/learned.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

constexpr const char* kPairTemplate =
    "{% for m in messages %}{% if m.role == 'assistant' %}A{{ m.content }};"
    "{% elif m.role == 'user' %}U{{ m.content }};"
    "{% else %}{{ raise_exception('no role ' + m.role) }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A{% endif %}";

class Pairs : public testing::Test {
  protected:
    Result<std::optional<Prepared>> prepared(const std::string& lines) {
        const auto path = folder_ / "pairs.jsonl";
        std::ofstream(path, std::ios::binary) << lines;
        PrepareOptions options;
        options.directory = folder_ / "tokens";
        options.rules.completions = true;
        options.rules.labels = labels_;
        options.rules.pairs = !labels_;
        options.rules.end_token = '.';
        options.skip_bad_lines = skips_;
        auto parsed = chat::Template::parse(kPairTemplate);
        if (has_template_)
            options.rules.chat = std::make_shared<const chat::ModelTemplate>(
                chat::ModelTemplate{*std::move(parsed), {}, {}, "identity", "t.jinja"});
        return prepare(path, bytes_, options, [](const PrepareProgress&) { return true; });
    }
    // Returns the texts of the answers, each with its prompt. Learned tokens stand between [ and ].
    std::string learned(const std::string& lines) {
        const auto made = prepared(lines);
        if (!made) return made.error().message.substr(made.error().message.find(", line") + 2);
        const TokenFile file = TokenFile::open_indexed((*made)->bin).value();
        const std::vector<std::size_t> starts = file.starts_within(0, file.tokens().size());
        std::string text;
        bool inside = false;
        for (std::size_t i = 0; i < file.tokens().size(); ++i) {
            const std::int64_t token = file.tokens()[i];
            const bool next = std::ranges::find(starts, i) != starts.end();
            if (inside && (token < 0 || next)) text += ']';
            if (next) text += ' ';
            if (token >= 0 && (!inside || next)) text += '[';
            inside = token >= 0;
            text += static_cast<char>(inside ? token : only_read(token));
        }
        return text + (inside ? "]" : "");
    }
    Corpus corpus(const std::string& lines, double valid, std::int64_t seq_length) {
        TokenFile file = TokenFile::open_indexed(prepared(lines).value()->bin).value();
        std::vector<NamedTokens> files;
        files.push_back({"pairs.jsonl", std::move(file)});
        return Corpus::make(std::move(files), valid, seq_length, Cut::BetweenPairs).value();
    }

    TemporaryFolder folder_;
    bool has_template_ = true, skips_ = false;
    bool labels_ = false;  // the lines have labelled answers
    tokenizer::Tokenizer bytes_ = tokenizer::Tokenizer::bytes();
};

TEST_F(Pairs, OfTextsLearnTheAnswers) {
    EXPECT_EQ(learned(R"({"prompt": "hi ", "chosen": "yes", "rejected": "no."})"),
              "hi [yes.] hi [no.]");
    // without a prompt: what both begin with, less the space before the first difference
    EXPECT_EQ(learned(R"({"chosen": "say hi now", "rejected": "say ho"})"),
              "say h[i now.] say h[o.]");
    EXPECT_EQ(learned(R"({"chosen": "say yes", "rejected": "say no"})"), "say[ yes.] say[ no.]");
    EXPECT_EQ(learned(R"({"prompt": "", "chosen": "a", "rejected": "b"})"), "[a.] [b.]");
    // the first byte that differs is inside of a character
    EXPECT_EQ(learned("{\"chosen\": \"x\u00e4\", \"rejected\": \"x\u00f6\"}"),
              "x[\u00e4.] x[\u00f6.]");
}

std::string user(const std::string& text) {
    return R"({"role": "user", "content": ")" + text + "\"}";
}
std::string assistant(const std::string& text) {
    return R"({"role": "assistant", "content": ")" + text + "\"}";
}
std::string from(const std::string& who, const std::string& text) {
    return R"({"from": ")" + who + R"(", "value": ")" + text + "\"}";
}
// Returns a record whose answers are lists of these messages. `more` are its other fields.
std::string answers(const std::string& chosen, const std::string& rejected,
                    const std::string& more = "") {
    return "{" + more + R"("chosen": [)" + chosen + R"(], "rejected": [)" + rejected + "]}";
}

TEST_F(Pairs, OfConversationsLearnTheAnswersAlone) {
    const std::string both = "Uq;A[yes;] Uq;A[no;]";
    EXPECT_EQ(
        learned(answers(assistant("yes"), assistant("no"), R"("prompt": [)" + user("q") + "], ")),
        both);
    EXPECT_EQ(
        learned(answers(user("q") + "," + assistant("yes"), user("q") + "," + assistant("no"))),
        both);
    // earlier turns of the assistant belong to the prompt
    const std::string before = user("q") + "," + assistant("a") + "," + user("r") + ",";
    EXPECT_EQ(learned(answers(before + assistant("yes"), before + assistant("no"),
                              R"("prompt": "unused", )")),
              "Uq;Aa;Ur;A[yes;] Uq;Aa;Ur;A[no;]");
    EXPECT_EQ(learned(R"({"conversations": [)" + from("human", "q") + R"(], "chosen": )" +
                      from("gpt", "yes") + R"(, "rejected": )" + from("gpt", "no") + "}"),
              both);
    EXPECT_EQ(learned(R"({"instruction": "q", "input": "", "chosen": "yes", "rejected": "no"})"),
              both);
}

TEST_F(Pairs, LabelledAnswersHaveTheFormsOfTrlAndOfLlamaFactory) {
    labels_ = true;
    // The second document of an answer is the number of answers of the line, and the label.
    const auto label = [](char in_line, char chosen) {
        return std::string{'[', in_line, chosen, ']'};
    };
    const std::string yes = " " + label(1, 1), no = " " + label(1, 0);
    EXPECT_EQ(learned(R"({"prompt": "hi ", "completion": "yes", "label": true})"),
              "hi [yes.]" + yes);
    EXPECT_EQ(learned(R"({"prompt": "hi ", "completion": "no", "label": false})"), "hi [no.]" + no);
    EXPECT_EQ(learned(R"({"prompt": [)" + user("q") + R"(], "completion": [)" + assistant("yes") +
                      R"(], "label": true})"),
              "Uq;A[yes;]" + yes);
    EXPECT_EQ(learned(R"({"messages": [)" + user("q") + "," + assistant("a") + "," + user("r") +
                      "," + assistant("b") + R"(], "label": false})"),
              "Uq;Aa;Ur;A[b;]" + no);
    EXPECT_EQ(learned(R"({"instruction": "q", "input": "", "output": "yes", "label": true})"),
              "Uq;A[yes;]" + yes);
    EXPECT_EQ(learned(R"({"prompt": "hi ", "chosen": "yes", "rejected": "no"})"),
              "hi [yes.] " + label(2, 1) + " hi [no.] " + label(2, 0));
    const auto reason = [&](const std::string& line) {
        const std::string told = learned(line);
        return told.substr(0, told.find("; correct this line"));
    };
    EXPECT_EQ(reason(R"({"prompt": "p", "completion": "a"})"), "line 1: has no field \"label\"");
    EXPECT_EQ(reason(R"({"prompt": "p", "completion": "a", "label": 1})"),
              "line 1: its field \"label\" is 1; allowed: true or false");
    EXPECT_EQ(reason(R"({"prompt": "p", "completion": "", "label": true})"),
              "line 1: its field \"completion\" is empty");
    EXPECT_EQ(reason(R"({"prompt": "p", "label": true})"),
              "line 1: has neither texts nor lists of messages in its fields \"prompt\" and "
              "\"completion\", and no conversation");
}

TEST_F(Pairs, ThatAreNoneAreRefusedWithLineAndValue) {
    const std::string good = R"({"prompt": "p", "chosen": "a", "rejected": "b"})"
                             "\n";
    const auto reason = [&](const std::string& line) {
        const std::string told = learned(good + line);
        return told.substr(0, told.find("; correct this line"));
    };
    EXPECT_EQ(reason(R"({"prompt": "p", "chosen": "a"})"), "line 2: has no field \"rejected\"");
    EXPECT_EQ(reason(R"({"prompt": "p", "chosen": 3, "rejected": "b"})"),
              "line 2: its field \"chosen\" is 3; allowed: a text, or a list of messages");
    EXPECT_EQ(reason(R"({"prompt": "p", "chosen": "", "rejected": "b"})"),
              "line 2: its field \"chosen\" is empty");
    EXPECT_EQ(reason(R"({"prompt": "p", "chosen": "b", "rejected": "b"})"),
              "line 2: its fields \"chosen\" and \"rejected\" are equal: 'b'");
    EXPECT_EQ(reason(R"({"prompt": "p", "chosen": "b", "rejected": [{"role": "user"}]})"),
              "line 2: its field \"chosen\" is a text, and its field \"rejected\" is a list of "
              "messages");
    EXPECT_EQ(
        reason(R"({"prompt": [1], "chosen": "a", "rejected": "b"})"),
        "line 2: its field \"prompt\" is [1]; allowed: a text, because the answers are texts");
    EXPECT_EQ(reason(answers(user("a"), user("b"))),
              "line 2: has 1 message, none with the role assistant, so there is nothing to learn");
    EXPECT_EQ(reason("[]"), "line 2: is not a JSON object");
    has_template_ = false;
    EXPECT_TRUE(reason(answers(assistant("a"), assistant("b")))
                    .starts_with("line 2: has conversations, and the tokenizer has no chat "
                                 "template; set `tokenizer`"));
    skips_ = true;
    const auto made = prepared(good + "{}\n" + good);
    EXPECT_EQ((*made)->bad_lines, 1);
    EXPECT_EQ(TokenFile::open_indexed((*made)->bin)->documents(), 4);
}

// Returns a line whose answers become documents of these sizes, with a prompt of one token.
std::string pair_line(std::size_t chosen, std::size_t rejected) {
    return R"({"prompt": "p", "chosen": ")" + std::string(chosen - 2, 'a') + R"(", "rejected": ")" +
           std::string(rejected - 2, 'b') + "\"}\n";
}

TEST_F(Pairs, StayTogetherInWindowsAndInTheHeldOutTail) {
    // 60 tokens; the held-out third begins within the third pair, so it is the fourth
    const Corpus made =
        corpus(pair_line(5, 9) + pair_line(8, 4) + pair_line(10, 9) + pair_line(4, 11), 0.33,
               /*seq_length=*/8);
    const Sampler sampler(made, 8, 1);
    ASSERT_EQ(sampler.windows(), 3);
    std::set<std::size_t> seen;
    for (std::uint64_t i = 0; i < 3; ++i) {
        const Window window = sampler.sample(i);
        EXPECT_EQ(window.document_starts().size(), 1);
        seen.insert(window.pair);
    }
    EXPECT_EQ(seen, (std::set<std::size_t>{0, 1, 2}));
    const std::vector<Window> valid = valid_windows(made, {8});
    ASSERT_EQ(valid.size(), 1);
    EXPECT_EQ(valid[0].pair, 3);
    EXPECT_EQ(valid[0].size, 15);
    EXPECT_EQ(valid[0].document_starts(), std::vector<std::size_t>{4});
    const LearnedDocuments counts = count_learned(made, {{8}, true});
    EXPECT_EQ(counts.documents, 3);
    EXPECT_EQ(counts.cut, 1);
    EXPECT_EQ(counts.longest, 10);
    EXPECT_EQ(counts.unlearned, 0);
}

TEST_F(Pairs, WithAnAnswerBeyondTheLimitAreLeftOut) {
    const std::string far = R"({"prompt": ")" + std::string(9, 'p') +
                            R"(", "chosen": "a", "rejected": "b"})"
                            "\n";
    const Corpus made = corpus(pair_line(5, 5) + far + pair_line(6, 6), 0, 8);
    const Sampler sampler(made, 8, 1);
    ASSERT_EQ(sampler.windows(), 2);
    EXPECT_EQ(sampler.sample(0).pair + sampler.sample(1).pair, 2);  // pairs 0 and 2
    EXPECT_EQ(count_learned(made, {{8}, true}).unlearned, 1);
    // Without the first tokens of its prompt, the second pair has answers to learn.
    EXPECT_EQ(Sampler::make(made, {.rows = {8, Truncate::Start}}).value().windows(), 3);
}

TEST_F(Pairs, WithALongAnswerAreDroppedIfTheRuleSaysSo) {
    const Corpus made = corpus(pair_line(5, 5) + pair_line(9, 10) + pair_line(9, 9), 0, 8);
    const RowRules drop{8, Truncate::Drop};
    const Sampler sampler = Sampler::make(made, {.rows = drop}).value();
    ASSERT_EQ(sampler.windows(), 2);
    EXPECT_EQ(sampler.sample(0).pair + sampler.sample(1).pair, 2);  // pairs 0 and 2
    const LearnedDocuments counts = count_learned(made, {drop, true});
    EXPECT_EQ(counts.dropped, 1);
    EXPECT_EQ(counts.cut, 0);
    EXPECT_EQ(find_long(made, {8})->number, 2);
    EXPECT_EQ(find_long(made, {8})->tokens, 10);
    EXPECT_FALSE(find_long(made, {9}));
}

}  // namespace
}  // namespace roll::data
