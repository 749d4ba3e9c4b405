// Tests rows that gather whole documents: their members, their order and how full they are.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/corpus/token_writer.hpp"

namespace roll::data {
namespace {

class Gathered : public testing::Test {
  protected:
    // Makes a file with a document of each size. All tokens of document i are i.
    TokenFile file(const std::vector<std::size_t>& sizes) const {
        Encoded encoded;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            encoded.ids.insert(encoded.ids.end(), sizes[i], static_cast<std::uint32_t>(i));
            encoded.document_ends.push_back(encoded.ids.size());
        }
        TokenWriter writer = TokenWriter::open(folder_ / "sizes", TokenType::Int32).value();
        EXPECT_TRUE(writer.append(encoded));
        EXPECT_TRUE(writer.finish());
        return TokenFile::open_indexed(folder_ / "sizes.bin").value();
    }

    TemporaryFolder folder_;
};

// Rows have nine tokens. The document of 20 tokens is cut to nine and fills a row. Then documents
// 2, 0, 1 and 4 follow, from the longest to the shortest: 0 fills the row of 2, and 4 joins 1.
TEST_F(Gathered, ADocumentJoinsTheRowWithTheLeastRoomThatIsEnough) {
    const TokenFile source = file({4, 4, 5, 20, 3});
    const GatheredRows rows(source, source.tokens().size(), {8});
    ASSERT_EQ(rows.size(), 3);
    EXPECT_EQ(rows.tokens(), 25);
    EXPECT_EQ(rows.gather(0).tokens, std::vector<std::int64_t>(9, 3));
    EXPECT_EQ(rows.gather(0).starts, std::vector<std::size_t>{});
    EXPECT_EQ(rows.gather(1).tokens, (std::vector<std::int64_t>{0, 0, 0, 0, 2, 2, 2, 2, 2}));
    EXPECT_EQ(rows.gather(1).starts, std::vector<std::size_t>{4});
    EXPECT_EQ(rows.gather(2).tokens, (std::vector<std::int64_t>{1, 1, 1, 1, 4, 4, 4}));
    const GatheredRows two(source, 8, {8});  // the documents 0 and 1 only
    ASSERT_EQ(two.size(), 1);
    EXPECT_EQ(two.gather(0).starts, std::vector<std::size_t>{4});
}

// A split document gives pieces that are placed like documents, as in TRL's bfd_split: the document
// of 20 tokens gives two pieces of nine tokens, and two tokens beside the document of 5.
TEST_F(Gathered, ALongDocumentIsSplitOrDropped) {
    const TokenFile source = file({4, 4, 5, 20, 3});
    const GatheredRows split(source, source.tokens().size(), {8, Truncate::Split});
    ASSERT_EQ(split.size(), 4);
    EXPECT_EQ(split.tokens(), 36);
    EXPECT_EQ(split.gather(1).tokens, std::vector<std::int64_t>(9, 3));
    EXPECT_EQ(split.gather(2).tokens, (std::vector<std::int64_t>{0, 0, 0, 0, 2, 2, 2, 2, 2}));
    EXPECT_EQ(split.gather(3).tokens, (std::vector<std::int64_t>{1, 1, 1, 1, 3, 3, 4, 4, 4}));
    EXPECT_EQ(split.gather(3).starts, (std::vector<std::size_t>{4, 6}));
    const GatheredRows drop(source, source.tokens().size(), {8, Truncate::Drop});
    ASSERT_EQ(drop.size(), 2);
    EXPECT_EQ(drop.tokens(), 16);
}

// Lengths of a usual set of chats: log-normal, median 400, sigma 1.
TEST_F(Gathered, AnEpochHasEachDocumentOnceInNearlyFullRows) {
    constexpr std::size_t kDocuments = 10000, kLength = 2048;
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> length(std::log(400.0), 1.0);
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < kDocuments; ++i)
        sizes.push_back(std::max<std::size_t>(1, std::lround(length(random))));
    std::vector<NamedTokens> files;
    files.push_back({"sizes", file(sizes)});
    const Corpus corpus = Corpus::make(std::move(files), 0, kLength, Cut::BetweenDocuments).value();
    const SampleRules rules{.rows = {kLength}, .seed = 1, .best_fit = true};
    const Sampler sampler = Sampler::make(corpus, rules).value();
    std::vector<std::size_t> seen(kDocuments);
    std::size_t inputs = 0;
    for (std::uint64_t i = 0; i < sampler.windows(); ++i) {
        const Window window = sampler.sample(i);
        ASSERT_LE(window.size, kLength + 1);
        inputs += window.size - 1;
        const Tokens tokens = window.tokens();
        for (std::size_t t = 0; t < tokens.size(); ++t) ++seen[static_cast<std::size_t>(tokens[t])];
    }
    for (std::size_t i = 0; i < kDocuments; ++i)
        ASSERT_EQ(seen[i], std::min(sizes[i], kLength + 1)) << i;
    const double rows = static_cast<double>(sampler.windows()) * kLength;
    const double fill = static_cast<double>(inputs) / rows;
    const Sampler ordered(corpus, kLength, 1);
    std::printf("best fit: %.2f %% of %lu rows; in order: %lu rows\n", 100 * fill,
                sampler.windows(), ordered.windows());
    EXPECT_GE(fill, 0.98);
    EXPECT_LT(fill, 1 + 1e-12);
}

}  // namespace
}  // namespace roll::data
