// Tests how preference pairs become micro-batches: whole pairs, without padding, with targets in
// the answers only.
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/worker/train/processes.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/model/sequences.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kNo = ops::kIgnored;

class PairBatches : public testing::Test {
  protected:
    PairBatches() {
        const auto path = folder_.path() / "pairs.jsonl";
        // prompts "p" and "qq"; tokens are bytes, and "." ends each answer
        std::ofstream(path) << R"({"prompt": "p", "chosen": "ab", "rejected": "c"})"
                            << "\n"
                            << R"({"prompt": "qq", "chosen": "d", "rejected": "efghij"})"
                            << "\n"
                            << R"({"prompt": "p", "chosen": "k", "rejected": "l"})"
                            << "\n";
        data::PrepareOptions options;
        options.directory = folder_.path() / "tokens";
        options.rules.completions = options.rules.pairs = true;
        options.rules.end_token = '.';
        const auto made =
            data::prepare(path, bytes_, options, [](const data::PrepareProgress&) { return true; });
        std::vector<data::NamedTokens> files;
        files.push_back({"pairs", data::TokenFile::open_indexed((*made)->bin).value()});
        corpus_.emplace(data::Corpus::held_out(std::move(files), data::Cut::BetweenPairs).value());
        windows_ = data::valid_windows(*corpus_, 5);
        spec_.data.pairs = spec_.data.completions = spec_.data.documents_apart = true;
        spec_.seq_length = 5;
        spec_.micro_batch_size = 2;
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
    EXPECT_EQ(pairs_in(batch[1]), 1);
}

TEST_F(PairBatches, OfTwoReplicasShareThePairsAndMayHaveNone) {
    spec_.parallel.dp = 2;
    for (const int rank : {0, 1}) {
        const auto batch = valid_batches(windows_, spec_, {.vocab = 256}, rank);
        ASSERT_EQ(batch.size(), 1);
        EXPECT_EQ(pairs_in(batch[0]), rank == 0 ? 2 : 1);
    }
    spec_.micro_batch_size = 3;
    const Microbatch none = valid_batches(windows_, spec_, {.vocab = 256}, 1)[0];
    EXPECT_EQ(pairs_in(none), 0);
    EXPECT_EQ(numbers(none.targets_BT), Row{kNo});
}

}  // namespace
}  // namespace roll::train
