// Tests lines of prompts and completions: their tokens, which of these are context only, and how
// whole documents become windows.
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/learned.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

class Completions : public testing::Test {
  protected:
    // Makes the token file of `lines`. Tokens are bytes, with token 1 after each document. `field`
    // is the key of texts; empty: lines without a prompt are bad lines.
    Result<std::optional<Prepared>> prepared(const std::string& lines,
                                             const std::string& field = "") {
        const auto path = folder_ / "pairs.jsonl";
        std::ofstream(path, std::ios::binary) << lines;
        PrepareOptions options;
        options.directory = folder_ / "tokens";
        options.rules.completions = true;
        options.rules.prompt_field = "q";
        options.rules.completion_field = "a";
        options.rules.end_token = 1;
        options.rules.texts = !field.empty();
        options.rules.field = field;
        return prepare(path, bytes_, options, [](const PrepareProgress&) { return true; });
    }
    Corpus corpus(const std::string& lines, double valid, std::int64_t seq_length,
                  const std::string& field = "") {
        TokenFile file = TokenFile::open_indexed(prepared(lines, field).value()->bin).value();
        std::vector<NamedTokens> files;
        files.push_back({"pairs.jsonl", std::move(file)});
        return Corpus::make(std::move(files), valid, seq_length, Cut::BetweenDocuments).value();
    }

    TemporaryFolder folder_;
    tokenizer::Tokenizer bytes_ = tokenizer::Tokenizer::bytes();
};

std::vector<std::int64_t> ids(const Tokens& tokens) {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < tokens.size(); ++i) all.push_back(tokens[i]);
    return all;
}

// Returns a line that becomes a document of `size` tokens: its prompt, `size` - 2 bytes of
// completion and the end token.
std::string line(char name, std::size_t size) {
    return R"({"q": ")" + std::string(1, name) + R"(", "a": ")" + std::string(size - 2, 'x') +
           "\"}\n";
}

TEST_F(Completions, PromptsAreOnlyRead) {
    const Corpus made = corpus(R"({"q": "hi", "a": "yo"})"
                               "\n\n"
                               R"({"a": "", "q": "nothing to learn"})"
                               "\n"
                               R"({"a": "z", "q": ""})",
                               0, 8);
    EXPECT_EQ(ids(made.files()[0].train),
              (std::vector<std::int64_t>{only_read('h'), only_read('i'), 'y', 'o', 1, 'z', 1}));
    EXPECT_LT(only_read(0), 0);
    EXPECT_EQ(only_read(only_read(70000)), 70000);
}

TEST_F(Completions, ALineWithoutAPromptMayBeATextThatIsLearnedWhole) {
    const std::string text = R"({"story": "hi", "a": "no"})",
                      pair = R"({"q": "s", "a": "t", "story": "u"})";
    const Corpus made = corpus(text + "\n" + pair, 0, 8, "story");
    EXPECT_EQ(ids(made.files()[0].train),
              (std::vector<std::int64_t>{'h', 'i', 1, only_read('s'), 't', 1}));
    EXPECT_FALSE(prepared(text));
    EXPECT_FALSE(prepared(text, "poem"));
    const std::string alpaca = R"({"instruction": "do", "output": "so", "story": "hi"})";
    EXPECT_EQ(ids(corpus(alpaca, 0, 8, "story").files()[0].train),
              (std::vector<std::int64_t>{'h', 'i', 1}));
    EXPECT_FALSE(prepared(alpaca));  // a conversation, and the tokenizer has no chat template
}

TEST_F(Completions, ALineWithoutOneOfTheTwoIsABadLine) {
    const auto refused = prepared("{\"q\": \"a\", \"a\": \"b\"}\n{\"q\": \"a\"}\n");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("line 2: has no field \"a\""), std::string::npos)
        << refused.error().message;
}

TEST_F(Completions, DocumentsWithoutATokenToLearnAreCounted) {
    const std::string all = line('a', 4) + line('b', 20) +  // the document of 20 is cut to 9
                            R"({"q": "12345678", "a": "x"})"
                            "\n"  // learned: its ninth token is the first of its completion
                            R"({"q": "123456789", "a": "x"})"
                            "\n";  // not learned: its completion is cut off
    const LearnedDocuments counts = count_learned(corpus(all, 0, 8), {{8}, true});
    EXPECT_EQ(counts.documents, 4);
    EXPECT_EQ(counts.cut, 3);
    EXPECT_EQ(counts.unlearned, 1);
    EXPECT_EQ(counts.one_token, 0);
    EXPECT_EQ(counts.longest, 20);
    EXPECT_FALSE(counts.nothing());
    EXPECT_TRUE(
        count_learned(corpus(R"({"q": "123456789", "a": "x"})", 0, 8), {{8}, true}).nothing());
}

// The documents have sizes 4, 4, 5, 20, 3. The first two fit into nine tokens. The third does not
// fit with them, and is alone because the fourth is longer than a window and is truncated. The
// fifth follows.
TEST_F(Completions, WindowsAreWholeDocuments) {
    const Corpus made =
        corpus(line('a', 4) + line('b', 4) + line('c', 5) + line('d', 20) + line('e', 3), 0, 8);
    const Sampler sampler(made, 8, 3);
    ASSERT_EQ(sampler.windows(), 4);
    std::map<std::size_t, std::size_t> seen;  // size of each window by its begin
    for (std::uint64_t i = 0; i < 4; ++i) seen[sampler.sample(i).begin] = sampler.sample(i).size;
    EXPECT_EQ(seen, (std::map<std::size_t, std::size_t>{{0, 8}, {8, 5}, {13, 9}, {33, 3}}));
    for (std::uint64_t i = 4; i < 8; ++i) EXPECT_TRUE(seen.contains(sampler.sample(i).begin));
    const Window both{&made.files()[0], 0, 8};
    EXPECT_EQ(both.document_starts(), std::vector<std::size_t>{4});
}

// Documents of 4, 20, 3 and 9 tokens, of which 2, 12, 1 and 7 are prompt, in rows of nine tokens.
TEST_F(Completions, ALongDocumentIsTruncatedByTheRule) {
    std::string lines;
    for (const auto& [prompt, rest] : {std::pair(2, 2), {12, 8}, {1, 2}, {7, 2}})
        lines += R"({"q": ")" + std::string(static_cast<std::size_t>(prompt), 'q') +
                 R"(", "a": ")" + std::string(static_cast<std::size_t>(rest - 1), 'a') + "\"}\n";
    const Corpus made = corpus(lines, 0, 8);
    using Windows = std::map<std::size_t, std::size_t>;  // size of each window by its begin
    const auto windows = [&](Truncate rule) {
        const Sampler sampler = Sampler::make(made, {.rows = {8, rule}}).value();
        Windows seen;
        for (std::uint64_t i = 0; i < sampler.windows(); ++i)
            seen[sampler.sample(i).begin] = sampler.sample(i).size;
        return seen;
    };
    EXPECT_EQ(windows(Truncate::End), (Windows{{0, 4}, {4, 9}, {24, 3}, {27, 9}}));
    EXPECT_EQ(windows(Truncate::Start), (Windows{{0, 4}, {15, 9}, {24, 3}, {27, 9}}));
    // The last token of the prompt and the answer of eight tokens fit.
    EXPECT_EQ(windows(Truncate::Prompt), (Windows{{0, 4}, {15, 9}, {24, 3}, {27, 9}}));
    EXPECT_EQ(windows(Truncate::Split), (Windows{{0, 4}, {4, 9}, {13, 9}, {22, 5}, {27, 9}}));
    EXPECT_EQ(windows(Truncate::Drop), (Windows{{0, 4}, {24, 3}, {27, 9}}));
    const auto counts = [&](Truncate rule) { return count_learned(made, {{8, rule}, true}); };
    EXPECT_EQ(counts(Truncate::End).unlearned, 1);
    for (const Truncate rule : {Truncate::Start, Truncate::Prompt, Truncate::Split, Truncate::Drop})
        EXPECT_EQ(counts(rule).unlearned, 0);
    EXPECT_EQ(counts(Truncate::Start).cut, 1);
    EXPECT_EQ(counts(Truncate::Split).cut, 0);
    EXPECT_EQ(counts(Truncate::Drop).cut, 0);
    EXPECT_EQ(counts(Truncate::Drop).dropped, 1);
    // In rows of five tokens, the answer of the second document loses its end.
    const Tokens second = made.files()[0].file.document(1);
    EXPECT_EQ(kept_piece(second, {4, Truncate::Prompt}).begin, 11);
    EXPECT_EQ(kept_piece(second, {4, Truncate::Prompt}).size, 5);
    EXPECT_EQ(kept_piece(second, {4, Truncate::Start}).begin, 15);
    const auto found = find_long(made, {8});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->number, 2);
    EXPECT_EQ(found->tokens, 20);
}

TEST_F(Completions, TheHeldOutTailBeginsWithADocument) {
    std::string lines;
    for (int i = 0; i < 10; ++i) lines += line('p', 10);
    // the tail is 15 of 100 tokens, but begins at the next document, 90
    const Corpus made = corpus(lines, 0.15, 16);
    EXPECT_EQ(made.train_tokens(), 90);
    const std::vector<Window> windows = valid_windows(made, {16});
    ASSERT_EQ(windows.size(), 1);
    EXPECT_EQ(windows[0].begin, 90);
    EXPECT_EQ(windows[0].size, 10);
    EXPECT_EQ(corpus(lines, 0.01, 16).valid_tokens(), 0);
}

}  // namespace
}  // namespace roll::data
