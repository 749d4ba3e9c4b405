// Tests the preview of data: what is learned, truncation, counts, and lines of a limited width.
#include "worker/train/data/preview.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace roll::train {
namespace {

class Preview : public testing::Test {
  protected:
    std::vector<PreviewFile> of(const std::string& lines, std::int64_t seq_length = 0,
                                spec::Truncation truncate = spec::Truncation::End) {
        const std::string path = folder_ / "pairs.jsonl";
        std::ofstream(path, std::ios::binary) << lines;
        spec::TrainSpec spec;
        spec.data.train = {path};
        spec.data.completions = true;
        spec.data.skip_bad_lines = true;
        spec.seq_length = seq_length;
        spec.data.truncate = truncate;
        return preview(spec, /*documents=*/2);
    }
    // Returns the text without the line that names the file.
    std::string text(const std::string& lines, const PreviewStyle& style = {},
                     std::int64_t seq_length = 0) {
        const std::string all = preview_text(of(lines, seq_length), style);
        return all.substr(all.find('\n') + 1);
    }

    TemporaryFolder folder_;
};

const char* const kPairs = R"({"prompt": "ab", "completion": "cd\ne"}
{"prompt": "", "completion": "\u001b[1m"}
{"text": "x"}
{"prompt": "third", "completion": "is counted"}
)";

TEST_F(Preview, MarksWhatIsLearned) {
    EXPECT_EQ(text(kPairs),
              "  3 documents, 25 tokens, 18 learned (72.0 %)\n"
              "  bad line 3: has no field \"prompt\"\n"
              "\n"
              "document 1: 6 tokens, 4 learned\n"
              "  ab{+cd\\n\n"
              "  e+}\n"
              "\n"
              "document 2: 4 tokens, 4 learned\n"
              "  {+\\x1b[1m+}\n"
              "\n"
              "Learned text stands between {+ and +}.\n");
}

TEST_F(Preview, ColoursEachLineOnATerminal) {
    const PreviewStyle style{.columns = 80, .color = true};
    const std::string shown = text(kPairs, style);
    EXPECT_NE(shown.find("  ab\x1b[32mcd\\n\x1b[0m\n  \x1b[32me\x1b[0m\n"), std::string::npos)
        << shown;
    EXPECT_EQ(shown.find("{+"), std::string::npos);
    const std::string ends = text(R"({"prompt": "a\n", "completion": "b\n"})", style);
    EXPECT_NE(ends.find("\n  a\\n\n  \x1b[32mb\\n\x1b[0m\n"), std::string::npos) << ends;
}

TEST_F(Preview, IsOfWhatTruncationLeaves) {
    const std::string shown =
        text(R"({"prompt": "ab", "completion": "cdef"})", {}, /*seq_length=*/2);
    EXPECT_NE(shown.find("1 document, 3 tokens, 1 learned (33.3 %); 1 document is cut"),
              std::string::npos)
        << shown;
    EXPECT_NE(shown.find("document 1: 3 tokens of 6, 1 learned\n  ab{+c+}\n"), std::string::npos);
    const auto by = [&](spec::Truncation rule) {
        return preview_text(of(R"({"prompt": "ab", "completion": "cdef"})", 2, rule), {});
    };
    EXPECT_NE(by(spec::Truncation::Start).find("{+def+}"), std::string::npos);
    EXPECT_NE(by(spec::Truncation::Prompt).find("\n  b{+cd+}\n"), std::string::npos);
    EXPECT_NE(by(spec::Truncation::Split).find("\n  ab{+cdef+}\n"), std::string::npos);
    EXPECT_NE(by(spec::Truncation::Drop).find("0 documents, 0 tokens, 0 learned (0 %); 1 longer"),
              std::string::npos)
        << by(spec::Truncation::Drop);
}

TEST_F(Preview, FitsTheTerminal) {
    std::string completion;
    for (int i = 0; i < 30; ++i) completion += "an answer of 世界 and more ";
    const std::string shown = text(R"({"prompt": "q", "completion": ")" + completion + "\"}");
    std::size_t lines = 0;
    for (std::size_t at = 0; at < shown.size(); ++lines) {
        const std::size_t end = shown.find('\n', at);
        const std::string line = shown.substr(at, end - at);
        // each of 世 and 界 has 3 bytes and 2 columns
        const auto wide = std::ranges::count_if(line, [](char c) { return (c & 0xF0) == 0xE0; });
        EXPECT_LE(std::ssize(line) - wide, 80) << line;
        at = end + 1;
    }
    EXPECT_GT(lines, 10U);
    // 40 letters of Hebrew, each with a vowel that takes no column
    std::string letters;
    for (int i = 0; i < 40; ++i) letters += "\u05e9\u05b8";
    EXPECT_NE(text(R"({"prompt": "q", "completion": ")" + letters + "\"}", {.columns = 60})
                  .find("{+" + letters + "+}"),
              std::string::npos);
}

TEST_F(Preview, AsJsonHasEachToken) {
    const OrderedJson json = preview_json(of(kPairs));
    EXPECT_EQ(json["schema"], "roll.data_preview/1");
    const OrderedJson& file = json["files"][0];
    EXPECT_EQ(file["documents"], 3);
    EXPECT_EQ(file["tokens_learned"], 18);
    EXPECT_EQ(file["shown"].size(), 2);
    EXPECT_EQ(file["shown"][0]["tokens"][1].dump(), R"({"id":98,"learned":false})");
    EXPECT_EQ(file["shown"][0]["parts"][1].dump(), R"({"text":"cd\ne","learned":true})");
}

TEST_F(Preview, OfALongTextShowsItsBeginning) {
    const std::string path = folder_ / "long.txt";
    std::ofstream file(path, std::ios::binary);
    for (int line = 0; line < 150'000; ++line) file << "0123456789abcde\n";
    file.close();
    spec::TrainSpec spec;
    spec.data.train = {path};
    const std::vector<PreviewFile> files = preview(spec, /*documents=*/2);
    EXPECT_FALSE(files.at(0).whole);
    EXPECT_EQ(files[0].documents, 1);
    EXPECT_GT(files[0].tokens, 1'000'000);
    const std::string shown = preview_text(files, {});
    EXPECT_NE(shown.find("  1 document in the first MiB, "), std::string::npos);
    EXPECT_NE(shown.find("\n  ... and "), std::string::npos);
    EXPECT_LT(shown.size(), 20'000u);
}

TEST_F(Preview, OfATokenFileIsRefused) {
    spec::TrainSpec spec;
    spec.data.train = {"/x/tokens.bin"};
    EXPECT_THROW(preview(spec, 1), std::runtime_error);
}

}  // namespace
}  // namespace roll::train
