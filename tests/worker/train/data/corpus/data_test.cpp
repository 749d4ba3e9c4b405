#include <cmath>
#include <fstream>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/corpus.hpp"
#include "worker/train/data/corpus/ngram.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

class Data : public testing::Test {
  protected:
    std::string put(const std::string& name, const std::string& text) {
        std::ofstream(root_ / name, std::ios::binary) << text;
        return (root_ / name).string();
    }

    TemporaryFolder root_;
};

// Makes a corpus whose tokens are the files' bytes.
Result<Corpus> byte_corpus(const std::vector<std::string>& paths, double valid_fraction,
                           std::int64_t seq_length) {
    std::vector<NamedTokens> files;
    for (const std::string& path : paths) {
        ROLL_TRY(TokenFile file, TokenFile::open_bytes(path));
        files.push_back({path, std::move(file)});
    }
    return Corpus::make(std::move(files), valid_fraction, seq_length);
}

std::string noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 20);
    return text;
}

TEST(Permutation, VisitsEveryIndexOnce) {
    for (const std::uint64_t size : {1ull, 2ull, 3ull, 4ull, 5ull, 64ull, 1000ull, 4097ull}) {
        for (const std::uint64_t key : {0ull, 1ull, 99ull}) {
            std::set<std::uint64_t> seen;
            const Permutation permutation(size, key);
            for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
            EXPECT_EQ(seen.size(), size);
            EXPECT_EQ(*seen.rbegin(), size - 1);
        }
    }
}

TEST(Permutation, DependsOnItsKeyAndMixesWell) {
    const Permutation a(10000, 1), b(10000, 2);
    int equal = 0, ordered = 0;
    for (std::uint64_t i = 0; i + 1 < 10000; ++i) {
        equal += a(i) == b(i);
        ordered += a(i) < a(i + 1);
    }
    EXPECT_LT(equal, 10);
    EXPECT_NEAR(ordered, 5000, 300);
}

TEST_F(Data, AnEpochIsEveryWindowOfEveryFileOnce) {
    const auto corpus =
        byte_corpus({put("a", noise(1003, 1)), put("b", noise(507, 2))}, 0.0, 10).value();
    const Sampler sampler(corpus, 10, 7);
    EXPECT_EQ(sampler.windows(), 100u + 50u);
    for (const std::uint64_t epoch : {0ull, 1ull, 5ull}) {
        std::set<const std::byte*> starts;
        for (std::uint64_t i = 0; i < sampler.windows(); ++i) {
            const Window tokens = sampler.sample(epoch * sampler.windows() + i);
            EXPECT_EQ(tokens.size, 11u);
            starts.insert(tokens.tokens().data());
        }
        EXPECT_EQ(starts.size(), sampler.windows());
    }
}

TEST_F(Data, AnotherSeedOrEpochDrawsAnotherOrder) {
    const auto corpus = byte_corpus({put("a", noise(100000, 1))}, 0.01, 10).value();
    const Sampler one(corpus, 10, 1), two(corpus, 10, 2);
    int equal = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
        equal += one.sample(i).tokens().data() == two.sample(i).tokens().data();
        equal += one.sample(i).tokens().data() == one.sample(i + one.windows()).tokens().data();
        EXPECT_EQ(one.sample(i).tokens().data(), Sampler(corpus, 10, 1).sample(i).tokens().data());
    }
    EXPECT_LT(equal, 5);
}

TEST_F(Data, TheTailIsHeldOutAndPredictedOnce) {
    const auto corpus =
        byte_corpus({put("a", noise(1000, 1)), put("b", "0123456789abc")}, 0.1, 16).value();
    EXPECT_EQ(corpus.train_tokens(), 900 + 12);
    EXPECT_EQ(corpus.valid_tokens(), 100 + 1);
    const std::vector<Window> windows = valid_windows(corpus, {16});
    std::size_t targets = 0;
    for (const Window& window : windows) targets += window.size - 1;
    EXPECT_EQ(targets, 99u);  // the tail of one byte has no target
    EXPECT_EQ(windows.size(), 7u);
    EXPECT_EQ(windows.back().size, 4u);
    EXPECT_EQ(windows[0].tokens().data(), corpus.files()[0].valid.data());
    EXPECT_EQ(windows[1].tokens().data(), windows[0].tokens().data() + 16);
}

TEST_F(Data, RefusesInOneSentence) {
    const auto refused = [](const std::vector<std::string>& paths) {
        const auto corpus = byte_corpus(paths, 0.01, 64);
        EXPECT_FALSE(corpus);
        EXPECT_EQ(corpus.error().code, ErrorCode::InvalidArgument);
        return corpus.error().message;
    };
    EXPECT_NE(refused({put("empty", "")}).find("is empty"), std::string::npos);
    EXPECT_EQ(
        refused({put("short", "abc")}),
        "data.train: the longest file has 3 training tokens; train.seq_length 64 requires 65; "
        "give a longer file, or a smaller train.seq_length");
}

TEST_F(Data, NgramProbabilitiesSumToOne) {
    const auto corpus = byte_corpus({put("a", noise(3000, 3) + "zebra zebra")}, 0.1, 8).value();
    const NgramModel model(corpus);
    for (const char* before : {"ab", "zz", "e\xff", "\xff\xfe",
                               "\xff"
                               "a"}) {
        double sum = 0;
        for (int byte = 0; byte < 256; ++byte) {
            const double p = model.probability(static_cast<std::uint8_t>(before[0]),
                                               static_cast<std::uint8_t>(before[1]),
                                               static_cast<std::uint8_t>(byte));
            EXPECT_GT(p, 0);
            sum += p;
        }
        EXPECT_NEAR(sum, 1, 1e-12);
    }
}

TEST_F(Data, NgramKnowsWhatNoiseAndOrderCost) {
    const auto noisy = byte_corpus({put("a", noise(200000, 5))}, 0.1, 8).value();
    EXPECT_NEAR(valid_bits_per_byte(NgramModel(noisy), valid_windows(noisy, {64})), std::log2(20),
                0.1);
    std::string cycle;
    for (int i = 0; i < 3000; ++i) cycle += "abcab";
    const auto ordered = byte_corpus({put("b", cycle)}, 0.1, 8).value();
    const double bits = valid_bits_per_byte(NgramModel(ordered), valid_windows(ordered, {64}));
    EXPECT_GT(bits, 0.0);
    EXPECT_LT(bits, 0.5);  // after "ab", only the choice of c or a is uncertain
}

}  // namespace
}  // namespace roll::data
