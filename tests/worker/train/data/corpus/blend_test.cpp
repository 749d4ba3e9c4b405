// Tests blends of files by weight or by tokens, and weights that change during training.
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

class BlendOfFiles : public testing::Test {
  protected:
    TokenFile bytes(const std::string& name, std::size_t size) const {
        std::ofstream(folder_ / name) << std::string(size, name[0]);
        return TokenFile::open_bytes(folder_ / name).value();
    }
    // Makes a file of prompts and completions, each with `size` tokens in all.
    TokenFile completions(const std::string& name, int lines, std::size_t size) const {
        const fs::path path = folder_ / (name + ".jsonl");
        std::ofstream out(path);
        for (int i = 0; i < lines; ++i)
            out << R"({"prompt": "p", "completion": ")" << std::string(size - 1, name[0])
                << "\"}\n";
        out.close();
        PrepareOptions options;
        options.directory = folder_ / "tokens";
        options.rules.completions = true;
        const auto all = [](const PrepareProgress&) { return true; };
        const auto made = prepare(path, tokenizer::Tokenizer::bytes(), options, all).value();
        return TokenFile::open_indexed(made->bin).value();
    }
    static Corpus corpus(std::vector<NamedTokens> files, Cut cut = Cut::Anywhere) {
        return Corpus::make(std::move(files), 0, 10, cut).value();
    }
    // Returns how many of the samples [begin, end) are drawn from each file.
    static std::map<std::string, int> drawn(const Sampler& sampler, std::uint64_t begin,
                                            std::uint64_t end) {
        std::map<std::string, int> counts;
        for (std::uint64_t i = begin; i < end; ++i) ++counts[sampler.sample(i).file->name];
        return counts;
    }

    TemporaryFolder folder_;
};

using Counts = std::map<std::string, int>;

TEST_F(BlendOfFiles, WeightsGiveTheSharesOfTheSamples) {
    std::vector<NamedTokens> files;
    files.push_back({"a", bytes("a", 101)});
    files.push_back({"b", bytes("b", 5001)});
    files.push_back({"c", bytes("c", 51)});
    const Corpus made = corpus(std::move(files));
    const Sampler sampler =
        Sampler::make(made, {.rows = {10}, .seed = 3, .phases = {{0, {6, 4, 0}}}}).value();
    EXPECT_EQ(drawn(sampler, 0, 10), (Counts{{"a", 6}, {"b", 4}}));
    EXPECT_EQ(drawn(sampler, 0, 10000), (Counts{{"a", 6000}, {"b", 4000}}));
    // Each file goes through all of its windows before one of them comes again.
    std::map<std::string, std::set<std::size_t>> seen;
    for (std::uint64_t i = 0; seen["a"].size() < 10; ++i) {
        const Window window = sampler.sample(i);
        EXPECT_TRUE(seen[window.file->name].insert(window.begin).second) << i;
    }
    // A sampler that begins late gives the same samples.
    const Sampler late =
        Sampler::make(made, {.rows = {10}, .seed = 3, .phases = {{0, {6, 4, 0}}}}).value();
    EXPECT_EQ(late.sample(9999).tokens().data(), sampler.sample(9999).tokens().data());
}

TEST_F(BlendOfFiles, ACurriculumChangesTheWeightsAtItsSteps) {
    std::vector<NamedTokens> files;
    files.push_back({"a", bytes("a", 1001)});
    files.push_back({"b", bytes("b", 1001)});
    const Corpus made = corpus(std::move(files));
    const Sampler sampler =
        Sampler::make(
            made, {.rows = {10}, .seed = 3, .phases = {{0, {1, 0}}, {40, {1, 3}}, {5000, {0, 1}}}})
            .value();
    EXPECT_EQ(drawn(sampler, 0, 40), (Counts{{"a", 40}}));
    EXPECT_EQ(drawn(sampler, 40, 80), (Counts{{"a", 10}, {"b", 30}}));
    EXPECT_EQ(drawn(sampler, 40, 4440), (Counts{{"a", 1100}, {"b", 3300}}));
    EXPECT_EQ(drawn(sampler, 5000, 5100), (Counts{{"b", 100}}));
    std::set<std::size_t> begins;  // a file goes on where it was in the phase before
    for (std::uint64_t i = 0, of_a = 0; of_a < 100; ++i) {
        const Window window = sampler.sample(i);
        if (window.file->name != "a") continue;
        begins.insert(window.begin);
        ++of_a;
    }
    EXPECT_EQ(begins.size(), 100U);
}

TEST_F(BlendOfFiles, SharesOfTokensCountTheTokensOfRows) {
    std::vector<NamedTokens> files;
    files.push_back({"short", completions("short", 40, 8)});  // one line of 8 tokens in a row
    files.push_back({"whole", completions("whole", 40, 11)});
    const Corpus made = corpus(std::move(files), Cut::BetweenDocuments);
    const auto tokens = [&](bool by_tokens) {
        const Sampler sampler =
            Sampler::make(
                made, {.rows = {10}, .seed = 3, .phases = {{0, {1, 1}}}, .by_tokens = by_tokens})
                .value();
        std::map<std::string, double> counts;
        for (std::uint64_t i = 0; i < 1900; ++i) {
            const Window window = sampler.sample(i);
            counts[window.file->name] += static_cast<double>(window.size);
        }
        return counts["whole"] / counts["short"];
    };
    EXPECT_NEAR(tokens(false), 11.0 / 8, 1e-2);
    EXPECT_NEAR(tokens(true), 1, 1e-2);
}

TEST_F(BlendOfFiles, AWeightOfAFileWithoutASampleIsRefused) {
    std::vector<NamedTokens> files;
    files.push_back({"a", bytes("a", 101)});
    files.push_back({"b", bytes("b", 5)});
    const Corpus made = corpus(std::move(files));
    const auto sampler = Sampler::make(made, {.rows = {10}, .phases = {{0, {1, 0.5}}}});
    ASSERT_FALSE(sampler);
    EXPECT_EQ(sampler.error().message,
              "data.weights: b has the weight 0.5, but too few tokens for a sample; set its weight "
              "to 0, or set a smaller train.seq_length");
}

}  // namespace
}  // namespace roll::data
