// Tests the table of transfers that ranks make of files, because rank 0 does not respond.
#include "worker/train/job/transfer_files.hpp"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::train {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class TransferFiles : public ::testing::Test {
  protected:
    // Returns what a rank of the group "dp" publishes. It waits for the transfer before `next`.
    static std::string text(int rank, int next) {
        const std::string number = std::to_string(next - 1);
        return R"({"next":{"dp":{"":)" + std::to_string(next) +
               R"(}},"first":{"dp":0},"place":{"dp":)" + std::to_string(rank) +
               R"(},"open":[{"group":"dp","sequence":"","seq":)" + number +
               R"(,"words":"all-reduce of loss"}]})";
    }
    void merge(int rank, const std::map<int, std::string>& texts, std::chrono::milliseconds grace) {
        const auto merged = merge_transfer_files(directory_, rank, texts, grace);
        EXPECT_TRUE(merged) << merged.error().message;
    }
    std::string table() const { return read_file(directory_ / "transfers.tsv").value_or(""); }

    static constexpr const char* kHead =
        "group\tranks\tsequence\tnumber\ttransfer\tcame\tnot_done\tnever_came\n";
    TemporaryFolder directory_;
};

TEST_F(TransferFiles, TheLowestRankThatWaitsWritesTheTableOfAll) {
    std::thread lowest([&] { merge(1, {{0, text(0, 4)}, {1, text(1, 5)}}, 2s); });
    while (!fs::exists(directory_ / "published-rank-1.json")) std::this_thread::sleep_for(1ms);
    merge(2, {{2, text(2, 5)}}, 0ms);
    EXPECT_EQ(table(), "");  // rank 2 is not the lowest
    lowest.join();
    EXPECT_EQ(table(), std::string(kHead) +
                           "dp\t0,1,2\t\t3\tall-reduce of loss\t0,1,2\t0\t\n"
                           "dp\t0,1,2\t\t4\tall-reduce of loss\t1,2\t1,2\t0\n");
}

TEST_F(TransferFiles, ARankThatComesAfterTheTableWritesItAgain) {
    merge(3, {{3, text(3, 5)}}, 0ms);
    EXPECT_EQ(table(), std::string(kHead) + "dp\t3\t\t4\tall-reduce of loss\t3\t3\t\n");
    merge(5, {{5, text(5, 4)}}, 0ms);
    EXPECT_EQ(table(), std::string(kHead) +
                           "dp\t3,5\t\t3\tall-reduce of loss\t3,5\t5\t\n"
                           "dp\t3,5\t\t4\tall-reduce of loss\t3\t3\t5\n");
}

}  // namespace
}  // namespace roll::train
