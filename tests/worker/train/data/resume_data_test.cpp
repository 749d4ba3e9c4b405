// Tests the data of a run that resumes in its third pass over a billion samples. The place is found
// directly, and the data are the same as if the run had never stopped.
#include <fstream>
#include <random>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "worker/train/data/batches.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLength = 16, kWindows = 1'000'000'000, kBatch = 8;
constexpr std::int64_t kStep = (5 * kWindows / 2) / kBatch;  // in the middle of the third pass
constexpr std::int64_t kSteps = 20;

// A corpus of a billion windows: a sparse file whose bytes are the tokens.
class Billion : public testing::Test {
  protected:
    Billion() {
        std::ofstream(root_ / "corpus.txt").put('x');
        fs::resize_file(root_ / "corpus.txt", kWindows * kLength + 1);
        spec_.seq_length = kLength;
        spec_.global_batch_size = kBatch;
        spec_.micro_batch_size = 2;
    }

    data::Corpus corpus() const {
        std::vector<data::NamedTokens> files;
        files.push_back({"corpus", data::TokenFile::open_bytes(root_ / "corpus.txt").value()});
        return data::Corpus::make(std::move(files), 0, kLength).value();
    }

    // Writes data to the places that the steps read, because the rest of the file is holes.
    void fill(const data::Corpus& corpus, const data::Sampler& sampler) const {
        std::mt19937 random(3);
        std::fstream file(root_ / "corpus.txt", std::ios::in | std::ios::out | std::ios::binary);
        for (std::int64_t i = 0; i < kSteps * kBatch; ++i) {
            const data::Window window =
                sampler.sample(static_cast<std::uint64_t>(kStep * kBatch + i));
            file.seekp(static_cast<std::streamoff>(window.begin));
            for (std::size_t j = 0; j < window.size; ++j)
                file.put(static_cast<char>('a' + random() % 26));
        }
        ASSERT_EQ(&corpus.files()[0], sampler.sample(0).file);
    }

    std::vector<at::Tensor> tokens_of(const data::Sampler& sampler, std::int64_t step,
                                      int dp = 1) const {
        spec::TrainSpec spec = spec_;
        spec.parallel.dp = dp;
        std::vector<at::Tensor> rows;
        for (int rank = 0; rank < dp; ++rank) {
            const StepPlace place{spec, step, step * kBatch, rank};
            for (const Microbatch& batch : step_batches(sampler, place, {.vocab = 256}))
                rows.push_back(batch.tokens_BT);
        }
        return rows;
    }

    TemporaryFolder root_;
    spec::TrainSpec spec_;
};

TEST_F(Billion, AResumedRunSeesWhatTheUninterruptedOneSees) {
    const data::Corpus whole = corpus();
    const data::Sampler walker(whole, kLength, 7);
    EXPECT_EQ(walker.windows(), static_cast<std::uint64_t>(kWindows));
    fill(whole, walker);
    std::vector<std::vector<at::Tensor>> walked;
    for (std::int64_t step = kStep; step < kStep + kSteps; ++step)
        walked.push_back(tokens_of(walker, step));
    for (const std::int64_t at : {0, 1, 13, 19}) {
        const data::Corpus again = corpus();
        const data::Sampler resumed(again, kLength, 7);
        for (const int dp : {1, 2, 4}) {
            const at::Tensor found = at::cat(tokens_of(resumed, kStep + at, dp));
            EXPECT_TRUE(found.equal(at::cat(walked[static_cast<std::size_t>(at)])));
            EXPECT_GT(found.min().item<std::int64_t>(), 'a' - 1);
        }
    }
}

// No sample repeats within a pass, and the next pass has another order.
TEST_F(Billion, SamplesAreDistinctWithinAPassAndDrawnAnewInTheNext) {
    const data::Corpus whole = corpus();
    const data::Sampler sampler(whole, kLength, 7);
    std::set<std::size_t> seen;
    int same = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        const std::uint64_t far = i * 49'999;  // indices spread over the whole pass
        seen.insert(sampler.sample(far).begin);
        same += sampler.sample(far).begin == sampler.sample(far + kWindows).begin;
    }
    EXPECT_EQ(seen.size(), 20'000U);
    EXPECT_LT(same, 3);
}

}  // namespace
}  // namespace roll::train
