// Tests the explanation of a transfer that does not end, with a board in memory.
#include <atomic>
#include <future>
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/comm/merged_transfers.hpp"
#include "worker/train/comm/watched_communicator.hpp"

namespace roll::train {
namespace {

using namespace std::chrono_literals;

class Flights : public ::testing::Test {
  protected:
    // A read of a live rank's text waits until the rank has published since the last read.
    Board board() {
        return {[this](const std::string& key, const std::string& text) {
                    const std::lock_guard lock(mutex_);
                    texts_[key] = text;
                    ++published_[key];
                    changed_.notify_all();
                },
                [this](const std::string& key) -> std::optional<std::string> {
                    std::unique_lock lock(mutex_);
                    changed_.wait(
                        lock, [&] { return !live_.contains(key) || published_[key] > read_[key]; });
                    read_[key] = published_[key];
                    const auto text = texts_.find(key);
                    return text == texts_.end() ? std::nullopt : std::optional(text->second);
                }};
    }

    // Returns once a live rank has published a text with `part`.
    void await(int rank, const std::string& part) {
        const std::string key = "flights/" + std::to_string(rank);
        {
            const std::lock_guard lock(mutex_);
            live_.insert(key);
        }
        while (board().get(key).value().find(part) == std::string::npos) {}
    }

    std::set<std::string> live_;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> texts_;
    std::map<std::string, std::int64_t> published_, read_;
};

Transfer sum_of(Tag tag) {
    const at::Tensor tensor = at::ones({3});
    return {Transfer::Kind::AllReduce, tag, tensor, tensor};
}

// Issues the transfer and begins to wait for it.
FlightRecorder::Id start(FlightRecorder& recorder, const char* group, const Transfer& transfer) {
    const FlightRecorder::Id id = recorder.issued(group, transfer);
    recorder.waits(id);
    return id;
}

// Waits for longer than the patience of 1 ms, and returns the explanation.
std::string late(FlightRecorder& recorder) {
    std::this_thread::sleep_for(2ms);
    return recorder.explain();
}

RecorderOptions options(int rank) { return {.rank = rank, .period = 1ms, .patience = 1ms}; }

TEST_F(Flights, NameTheRanksThatNeverIssuedACollective) {
    const std::vector<int> ranks{4, 5, 6, 7};
    std::deque<FlightRecorder> recorders;
    { const FlightRecorder stopped(board(), options(7)); }
    for (const int rank : {4, 5, 6}) recorders.emplace_back(board(), options(rank));
    for (FlightRecorder& recorder : recorders) recorder.join("dp", ranks);
    for (FlightRecorder& recorder : recorders)
        recorder.done(start(recorder, "dp", sum_of({Site::TokenCount})));
    recorders[2].issued("dp", sum_of({Site::Bucket, 2}));
    await(5, R"("dp")");
    await(6, "bucket 2");
    start(recorders[0], "dp", sum_of({Site::Bucket, 2}));
    const std::string why = late(recorders[0]);
    EXPECT_TRUE(why.starts_with(
        "number 1 of group dp, all-reduce of gradients, bucket 2, 12 bytes, has waited 0 s; "))
        << why;
    EXPECT_TRUE(why.ends_with(
        "; rank 5 never issued this transfer, and waits for no transfer; rank 7 never "
        "issued this transfer, and its process does not respond"))
        << why;
}

TEST_F(Flights, NameARankThatIssuedAnotherCollective) {
    FlightRecorder own(board(), options(1)), other(board(), options(2));
    for (FlightRecorder* recorder : {&own, &other}) recorder->join("dp", {1, 2});
    start(other, "dp", sum_of({Site::Bucket, 1}));
    await(2, "bucket 1");
    start(own, "dp", sum_of({Site::Bucket, 2}));
    const std::string why = late(own);
    EXPECT_TRUE(
        why.ends_with(" s; rank 2 issued all-reduce of gradients, bucket 1, 12 bytes under "
                      "this number"))
        << why;
}

TEST_F(Flights, NameTheSenderOfAMessageAndWhatItWaitsFor) {
    FlightRecorder receiver(board(), options(0)), sender(board(), options(1));
    for (FlightRecorder* recorder : {&receiver, &sender}) recorder->join("pp", {0, 1});
    const at::Tensor tensor = at::ones({3});
    const auto message = [&](Transfer::Kind kind, int peer, int microbatch) {
        return Transfer{kind, {Site::Gradient, 2, microbatch}, tensor, {}, Reduce::Sum, peer};
    };
    sender.issued("pp", message(Transfer::Kind::Send, 0, 0));
    start(sender, "pp", sum_of({Site::StepSums}));
    receiver.done(start(receiver, "pp", message(Transfer::Kind::Receive, 1, 0)));
    await(1, "waits\":\"number 0");
    start(receiver, "pp", message(Transfer::Kind::Receive, 1, 1));
    EXPECT_EQ(late(receiver),
              "number 1 of group pp, receive of gradient of an activation, layer 2, micro-batch 1, "
              "12 bytes, has waited 0 s; rank 1 never issued this transfer, and waits for number 0 "
              "of group "
              "pp, all-reduce of loss and gradient norm, 12 bytes");
}

TEST_F(Flights, NameAStoppedRankThatHasIssuedTheTransferToo) {
    FlightRecorder own(board(), options(1));
    own.join("dp", {1, 2});
    {
        FlightRecorder stopped(board(), options(2));
        stopped.join("dp", {1, 2});
        start(stopped, "dp", sum_of({Site::Bucket}));
        await(2, "waits\":\"number 0");
        live_.clear();
    }
    start(own, "dp", sum_of({Site::Bucket}));
    const std::string why = late(own);
    EXPECT_TRUE(why.ends_with(" s; rank 2 issued this transfer, but its process does not respond"))
        << why;
}

TEST_F(Flights, AStoreThatCannotBeReadIsRankZeros) {
    FlightRecorder recorder(board(), options(1));
    recorder.join("dp", {1, 2});
    start(recorder, "dp", sum_of({Site::Bucket}));
    const std::string why = late(recorder);
    EXPECT_TRUE(why.ends_with(" s; rank 0, which serves the store, does not respond")) << why;
}

// Rank 0 publishes, and then the board, which it serves, can no longer be read.
TEST_F(Flights, RankOneKeepsWhatRankZeroPublishedLast) {
    std::atomic<bool> served = true;
    Board dying = board();
    dying.get = [&, get = board().get](const std::string& key) {
        return served ? get(key) : std::nullopt;
    };
    {
        FlightRecorder first(board(), options(0));
        first.join("dp", {0, 1});
        await(0, R"("dp")");
        live_.clear();
    }
    std::promise<std::map<int, std::string>> texts;
    std::optional<FlightRecorder> recorder;
    RecorderOptions keeping = options(1);
    keeping.keeps_first = true;
    keeping.on_stuck = [&](const std::string&) {
        EXPECT_TRUE(recorder->lacks_texts());
        EXPECT_EQ(recorder->merged_table(), "");
        texts.set_value(recorder->texts());
    };
    recorder.emplace(dying, keeping);
    recorder->join("dp", {0, 1});
    for (int i = 0; i < 2; ++i) await(1, R"("dp")");  // it reads rank 0's text between the two
    served = false;
    start(*recorder, "dp", sum_of({Site::Bucket}));
    const auto kept = texts.get_future().get();
    ASSERT_EQ(kept.size(), 2);
    EXPECT_NE(kept.at(0).find(R"("dp":{})"), std::string::npos) << kept.at(0);
    EXPECT_NE(kept.at(1).find("all-reduce of gradients"), std::string::npos) << kept.at(1);
}

TEST_F(Flights, ATransferThatIsTooYoungIsNotExplained) {
    FlightRecorder recorder(board(), {.rank = 0, .period = 1ms, .patience = 1h});
    recorder.join("dp", {0, 1});
    start(recorder, "dp", sum_of({Site::Bucket}));
    EXPECT_EQ(recorder.explain(), "");
}

// roll-worker forgets the reported failure once the transfer is done.
TEST_F(Flights, ATransferThatEndsLateIsReportedAndTakenBack) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> reported;
    RecorderOptions reporting = options(1);
    reporting.on_stuck = [&](const std::string& why) {
        const std::lock_guard lock(mutex);
        reported.push_back(why);
        changed.notify_all();
    };
    FlightRecorder own(board(), reporting), other(board(), options(2));
    for (FlightRecorder* recorder : {&own, &other}) recorder->join("dp", {1, 2});
    await(2, "dp");
    const FlightRecorder::Id id = start(own, "dp", sum_of({Site::Bucket}));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reported.size() == 1; });
    EXPECT_NE(reported[0].find("rank 2 never issued this transfer"), std::string::npos)
        << reported[0];
    own.done(id);
    changed.wait(lock, [&] { return reported.size() == 2; });
    EXPECT_EQ(reported[1], "");
}

TEST_F(Flights, ListTheLatestTransfers) {
    FlightRecorder recorder(board(), {.rank = 0, .period = 1ms, .patience = 1h});
    recorder.join("dp", {0, 1});
    recorder.done(start(recorder, "dp", sum_of({Site::TokenCount})));
    start(recorder, "dp", sum_of({Site::Bucket, 2}));
    EXPECT_EQ(
        recorder.latest(),
        "  number 0 of group dp, all-reduce of token count, 12 bytes: issued 0 s ago, done\n"
        "  number 1 of group dp, all-reduce of gradients, bucket 2, 12 bytes: issued 0 s ago, "
        "not done\n");
}

TEST_F(Flights, TheTableHasMoreTransfersThanTheList) {
    FlightRecorder recorder(board(), {.rank = 0, .period = 1ms, .patience = 1h});
    recorder.join("dp", {0, 1});
    for (int i = 0; i < 100; ++i) recorder.done(start(recorder, "dp", sum_of({Site::TokenCount})));
    start(recorder, "dp", sum_of({Site::Bucket, 2}));
    const std::string listed = recorder.latest(), table = recorder.table();
    EXPECT_EQ(std::ranges::count(listed, '\n'), 16);
    EXPECT_EQ(std::ranges::count(table, '\n'), 1 + 101);
    EXPECT_TRUE(
        table.starts_with("rank\tgroup\tsequence\tnumber\ttransfer\tissued_s_ago\tdone_s_ago\n"
                          "0\tdp\t\t0\tall-reduce of token count, 12 bytes\t0."))
        << table;
    EXPECT_TRUE(table.ends_with("\tnot done\n")) << table;
}

TEST_F(Flights, TheExplanationIsPartOfPeerLost) {
    FlightRecorder recorder(board(), options(0)), other(board(), options(1));
    LocalGroup group(2);
    WatchedCommunicator stays(std::make_unique<LocalCommunicator>(group, 0), "dp", {0, 1},
                              recorder);
    await(1, "waits");
    const auto ticket = stays.all_reduce(at::ones({3}), Reduce::Sum, {Site::StepSums});
    std::thread leaves([&] {
        await(0, "waits\":\"number 0");
        std::this_thread::sleep_for(2ms);  // longer than the patience
        const LocalCommunicator left(group, 1);
    });
    try {
        stays.wait(ticket);
        ADD_FAILURE();
    } catch (const PeerLost& lost) {
        EXPECT_NE(std::string(lost.what()).find("rank 1 never issued this transfer"),
                  std::string::npos);
        EXPECT_NE(std::string(lost.what()).find("(rank 1 left the group)"), std::string::npos);
    }
    leaves.join();
}

// Ranks 4 to 6 form a group "dp", and rank 7 belongs to another group of this name. Rank 6 is
// behind, and ranks 4 and 5 issued different collectives. Rank 4 never sent the third message to
// rank 6. The texts of the ranks of the messages in "far" are not known.
TEST(MergedTransfers, HaveOneRowForEachTransferThatSomeRanksLack) {
    const std::map<int, std::string> published{
        {4, R"({"next":{"dp":{"":3},"pp":{"0>1 0":2}},"first":{"dp":4,"pp":4},)"
            R"("place":{"dp":0,"pp":0},"open":[)"
            R"({"group":"dp","sequence":"","seq":2,"words":"all-reduce of loss"}]})"},
        {5, R"({"next":{"dp":{"":3}},"first":{"dp":4},"place":{"dp":1},"open":[)"
            R"({"group":"dp","sequence":"","seq":2,"words":"all-gather of weights"}]})"},
        {6, R"({"next":{"dp":{"":2},"pp":{"0>1 0":3}},"first":{"dp":4,"pp":4},)"
            R"("place":{"dp":2,"pp":1},"open":[)"
            R"({"group":"pp","sequence":"0>1 0","seq":2,"words":"receive of activation"}]})"},
        {7, R"({"next":{"dp":{"":9}},"first":{"dp":7},"place":{"dp":0},"open":[]})"},
        {8, R"({"next":{"far":{"2>3 0":9}},"first":{"far":7},"place":{"far":4},"open":[]})"}};
    EXPECT_EQ(merged_transfers(published),
              "group\tranks\tsequence\tnumber\ttransfer\tcame\tnot_done\tnever_came\n"
              "dp\t4,5,6\t\t2\tall-gather of weights | all-reduce of loss\t4,5\t4,5\t6\n"
              "pp\t4,6\t0>1 0\t2\treceive of activation\t6\t6\t4\n");
}

// Rank 0, the first rank of both groups, has published nothing that can be read.
TEST(MergedTransfers, LeaveOutARankWithoutAText) {
    const std::map<int, std::string> published{
        {1, R"({"next":{"dp":{"":3},"pp":{"0>1 0":3,"1>2 0":2}},"first":{"dp":0,"pp":0},)"
            R"("place":{"dp":1,"pp":1},"open":[)"
            R"({"group":"pp","sequence":"0>1 0","seq":2,"words":"receive of activation"}]})"},
        {2, R"({"next":{"dp":{"":2},"pp":{"1>2 0":3}},"first":{"dp":0,"pp":0},)"
            R"("place":{"dp":2,"pp":2},"open":[)"
            R"({"group":"pp","sequence":"1>2 0","seq":2,"words":"receive of activation"}]})"}};
    EXPECT_EQ(merged_transfers(published),
              "group\tranks\tsequence\tnumber\ttransfer\tcame\tnot_done\tnever_came\n"
              "dp\t1,2\t\t2\t\t1\t\t2\n"
              "pp\t1\t0>1 0\t2\treceive of activation\t1\t1\t\n"
              "pp\t1,2\t1>2 0\t2\treceive of activation\t2\t2\t1\n");
}

// Returns the table of rank 2, which waits for a sum of the ranks 0 to 2.
std::string merged_by_rank_2(const Board& board) {
    std::promise<std::string> table;
    std::optional<FlightRecorder> recorder;
    RecorderOptions merging = options(2);
    merging.ranks = 3;
    merging.on_stuck = [&](const std::string&) { table.set_value(recorder->merged_table()); };
    recorder.emplace(board, merging);
    recorder->join("dp", {0, 1, 2});
    start(*recorder, "dp", sum_of({Site::StepSums}));
    return table.get_future().get();
}

// The first rank that waits and responds writes the table. A stopped rank counts with its
// last text. Ranks 0 and 1 never read: two ranks that read each other would stop this board.
TEST_F(Flights, TheFirstRankThatWaitsMergesWhatAllRanksPublished) {
    FlightRecorder absent(board(), {.rank = 1, .period = 1ms, .patience = 1h});
    absent.join("dp", {0, 1, 2});
    await(1, R"("dp")");
    {
        FlightRecorder first(board(), {.rank = 0, .period = 1ms, .patience = 1h});
        first.join("dp", {0, 1, 2});
        start(first, "dp", sum_of({Site::StepSums}));
        await(0, "waits\":\"number 0");
        EXPECT_EQ(merged_by_rank_2(board()), "");
    }
    live_.erase("flights/0");
    EXPECT_EQ(merged_by_rank_2(board()),
              "group\tranks\tsequence\tnumber\ttransfer\tcame\tnot_done\tnever_came\n"
              "dp\t0,1,2\t\t0\tall-reduce of loss and gradient norm, 12 bytes\t0,2\t0,2\t1\n");
}

}  // namespace
}  // namespace roll::train
