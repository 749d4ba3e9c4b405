// Tests how preference pairs and labelled answers become micro-batches: whole pairs, without
// padding, with targets in the answers only.
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/model/sequences.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kNo = ops::kIgnored;

class PairBatches : public testing::Test {
  protected:
    PairBatches() {
        spec_.data.pairs = spec_.data.completions = spec_.data.documents_apart = true;
        spec_.seq_length = 5;
        spec_.micro_batch_size = 2;
        // prompts "p" and "qq"; tokens are bytes, and "." ends each answer
        write(R"({"prompt": "p", "chosen": "ab", "rejected": "c"})"
              "\n"
              R"({"prompt": "qq", "chosen": "d", "rejected": "efghij"})"
              "\n"
              R"({"prompt": "p", "chosen": "k", "rejected": "l"})"
              "\n");
    }

    // Writes a file of answers, and opens it as a corpus.
    void write(const std::string& lines) {
        const auto path = folder_ / (spec_.data.labels ? "labels.jsonl" : "pairs.jsonl");
        std::ofstream(path) << lines;
        data::PrepareOptions options;
        options.directory = folder_ / "tokens";
        options.rules.completions = true;
        options.rules.pairs = spec_.data.pairs;
        options.rules.labels = spec_.data.labels;
        options.rules.margin_field = spec_.data.margin_field;
        options.rules.end_token = '.';
        options.skip_bad_lines = true;
        const auto made =
            data::prepare(path, bytes_, options, [](const data::PrepareProgress&) { return true; });
        std::vector<data::NamedTokens> files;
        files.push_back({"answers", data::TokenFile::open_indexed((*made)->bin).value()});
        corpus_.emplace(data::Corpus::held_out(std::move(files), data::Cut::BetweenPairs).value());
        windows_ = data::valid_windows(*corpus_, row_rules(spec_));
    }

    TemporaryFolder folder_;
    tokenizer::Tokenizer bytes_ = tokenizer::Tokenizer::bytes();
    std::optional<data::Corpus> corpus_;
    std::vector<data::Window> windows_;
    spec::TrainSpec spec_;
};

std::vector<std::int64_t> numbers(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.flatten();
    return {flat.const_data_ptr<std::int64_t>(),
            flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

using Row = std::vector<std::int64_t>;

TEST_F(PairBatches, HoldWholePairsAndLearnTheAnswersOnly) {
    ASSERT_EQ(windows_.size(), 3);
    PairReferences references;
    references.add(corpus_->files()[0], 3);
    for (std::size_t i = 0; i < 3; ++i)
        references.set(windows_[i], {-1.0 * static_cast<double>(i), -10.0});
    const auto batch = valid_batches(windows_, spec_, {.vocab = 256, .references = &references}, 0);
    ASSERT_EQ(batch.size(), 2);
    EXPECT_EQ(batch[0].segments, (Row{0, 3, 5, 8}));
    EXPECT_EQ(numbers(batch[0].tokens_BT), (Row{'p', 'a', 'b',  //
                                                'p', 'c',       //
                                                'q', 'q', 'd',  //
                                                'q', 'q', 'e', 'f', 'g'}));
    EXPECT_EQ(numbers(batch[0].targets_BT), (Row{'a', 'b', '.',  //
                                                 'c', '.',       //
                                                 kNo, 'd', '.',  //
                                                 kNo, 'e', 'f', 'g', 'h'}));
    EXPECT_EQ(batch[0].references, (std::vector<double>{0, -10, -1, -10}));
    EXPECT_EQ(batch[1].segments, (Row{0, 2}));
    EXPECT_EQ(samples_in(spec_.preference, batch[1]), 1);
}

TEST_F(PairBatches, OfARewardModelEndAtTheLastTokenThatIsNoPadding) {
    spec_.preference = spec::preference_spec("reward");
    const auto padded = valid_batches(windows_, spec_, {.vocab = 256, .pad = '.'}, 0);
    EXPECT_EQ(padded[0].segments, (Row{0, 3, 5, 8}));
    EXPECT_EQ(numbers(padded[0].tokens_BT), (Row{'p', 'a', 'b',  //
                                                 'p', 'c',       //
                                                 'q', 'q', 'd',  //
                                                 'q', 'q', 'e', 'f', 'g'}));
    EXPECT_EQ(numbers(padded[0].targets_BT), (Row{'a', 'b', kNo,  //
                                                  'c', kNo,       //
                                                  kNo, 'd', kNo,  //
                                                  kNo, 'e', 'f', 'g', kNo}));
    const auto whole = valid_batches(windows_, spec_, {.vocab = 256}, 0);
    EXPECT_EQ(whole[0].segments, (Row{0, 4, 7, 11}));
    EXPECT_EQ(numbers(whole[0].tokens_BT).at(3), '.');
}

TEST_F(PairBatches, HaveTheMarginsOfTheirLines) {
    spec_.preference = spec::preference_spec("reward");
    spec_.data.margin_field = "by";
    write(R"({"prompt": "p", "chosen": "ab", "rejected": "c", "by": 0.75})"
          "\n"
          R"({"prompt": "p", "chosen": "a", "rejected": "b"})"
          "\n"
          R"({"prompt": "q", "chosen": "d", "rejected": "efghij", "by": -2})"
          "\n");
    ASSERT_EQ(windows_.size(), 2);  // the line without a margin is bad
    const auto batch = valid_batches(windows_, spec_, {.vocab = 256, .pad = '.'}, 0);
    EXPECT_EQ(batch[0].margins, (std::vector<double>{0.75, -2}));
    EXPECT_EQ(batch[0].segments, (Row{0, 3, 5, 7}));
    EXPECT_EQ(numbers(batch[0].tokens_BT), (Row{'p', 'a', 'b',  //
                                                'p', 'c',       //
                                                'q', 'd',       //
                                                'q', 'e', 'f', 'g', 'h'}));
}

TEST_F(PairBatches, OfTwoReplicasShareThePairsAndMayHaveNone) {
    spec_.parallel.dp = 2;
    for (const int rank : {0, 1}) {
        const auto batch = valid_batches(windows_, spec_, {.vocab = 256}, rank);
        ASSERT_EQ(batch.size(), 1);
        EXPECT_EQ(samples_in(spec_.preference, batch[0]), rank == 0 ? 2 : 1);
    }
    spec_.micro_batch_size = 3;
    const Microbatch none = valid_batches(windows_, spec_, {.vocab = 256}, 1)[0];
    EXPECT_EQ(samples_in(spec_.preference, none), 0);
    EXPECT_EQ(numbers(none.targets_BT), Row{kNo});
}

TEST_F(PairBatches, HoldLabelledAnswersAndMismatchedOnes) {
    spec_.data.pairs = false;
    spec_.data.labels = true;
    spec_.preference = spec::preference_spec("kto");
    spec_.micro_batch_size = 4;
    write(R"({"prompt": "p", "completion": "ab", "label": true})"
          "\n"
          R"({"prompt": "qq", "completion": "cdefgh", "label": false})"
          "\n"
          R"({"prompt": "r", "chosen": "k", "rejected": "l"})"
          "\n");
    ASSERT_EQ(windows_.size(), 4);
    PairReferences references;
    references.add(corpus_->files()[0], 4);
    for (std::size_t i = 0; i < 4; ++i) {
        const auto number = static_cast<double>(i);
        references.set(windows_[i], {-number, -10 - number});
    }
    const auto batch = valid_batches(windows_, spec_, {.vocab = 256, .references = &references}, 0);
    ASSERT_EQ(batch.size(), 1);
    EXPECT_EQ(samples_in(spec_.preference, batch[0]), 4);
    EXPECT_EQ(batch[0].labels, (std::vector<std::uint8_t>{1, 0, 1, 0}));
    EXPECT_EQ(batch[0].segments, (Row{0, 3, 8, 10}));
    EXPECT_EQ(numbers(batch[0].targets_BT), (Row{'a', 'b', '.',            //
                                                 kNo, 'c', 'd', 'e', 'f',  //
                                                 'k', '.',                 //
                                                 'l', '.'}));
    EXPECT_EQ(batch[0].references, (std::vector<double>{0, -1, -2, -3}));
    // Each prompt is combined with another answer: with the answer one line before, and for the two
    // answers of the pair, two lines before.
    const Microbatch& other = batch[0].mismatched.at(0);
    EXPECT_EQ(other.segments, (Row{0, 2, 6, 9}));
    EXPECT_EQ(numbers(other.tokens_BT), (Row{'p', 'l',            //
                                             'q', 'q', 'a', 'b',  //
                                             'r', 'a', 'b',       //
                                             'r', 'c', 'd', 'e', 'f'}));
    EXPECT_EQ(numbers(other.targets_BT), (Row{'l', '.',            //
                                              kNo, 'a', 'b', '.',  //
                                              'a', 'b', '.',       //
                                              'c', 'd', 'e', 'f', 'g'}));
    EXPECT_EQ(other.references, (std::vector<double>{-10, -11, -12, -13}));
    spec_.preference.loss = spec::PairLoss::ApoZero;
    EXPECT_TRUE(valid_batches(windows_, spec_, {.vocab = 256}, 0)[0].mismatched.empty());
}

}  // namespace
}  // namespace roll::train
