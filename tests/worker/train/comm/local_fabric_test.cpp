// Tests what the in-process fabric finds: each misuse of a group, by name.
#include "worker/train/comm/local_fabric.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace roll::train {
namespace {

using Rank = std::function<void(Communicator& group, int rank)>;

// Runs the ranks of one group, "dp". Returns the message of the first exception, or "".
std::string fault(int ranks, const Rank& rank_main, LocalOptions options = {}) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    LocalFabric fabric(ranks, std::move(options));
    try {
        fabric.run([&](int rank) {
            const auto group = fabric.group("dp", all, rank);
            rank_main(*group, rank);
        });
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

TEST(LocalFabric, AnOutputIsNotANumberUntilItsWait) {
    EXPECT_EQ(fault(2,
                    [](Communicator& group, int) {
                        const at::Tensor sum = at::ones({3});
                        const auto ticket = group.all_reduce(sum, Reduce::Sum, {Site::Bucket});
                        EXPECT_TRUE(sum.isnan().all().item<bool>());
                        group.wait(ticket);
                        EXPECT_TRUE(sum.equal(at::full({3}, 2.0F)));
                    }),
              "");
}

TEST(LocalFabric, AWriteBeforeTheDeliveryNamesTheTag) {
    EXPECT_EQ(fault(2,
                    [](Communicator& group, int) {
                        const at::Tensor sum = at::ones({3});
                        const auto ticket = group.all_reduce(sum, Reduce::Sum, {Site::Bucket, 4});
                        sum.fill_(1);
                        group.wait(ticket);
                    }),
              "group dp: the output of all-reduce of gradients, bucket 4 was changed before the "
              "transfer was complete");
    EXPECT_EQ(
        fault(2,
              [](Communicator& group, int rank) {
                  const at::Tensor tensor = at::ones({3});
                  if (rank == 1) {
                      barrier(group);
                      group.wait(group.receive(tensor, 0, {Site::Gradient, 2, 5}));
                      return;
                  }
                  group.send(tensor, 1, {Site::Gradient, 2, 5});
                  tensor.fill_(7);
                  barrier(group);
              }),
        "group dp: the input of send of gradient of an activation, layer 2, micro-batch 5 was "
        "changed before the transfer was complete");
}

TEST(LocalFabric, TransfersThatDisagreeAreNamed) {
    const auto differ = [](const at::Tensor& own, Tag tag) {
        return fault(2, [&](Communicator& group, int rank) {
            barrier(group);
            sum_over(group, rank == 0 ? at::ones({2}) : own, rank == 0 ? Tag{Site::StepSums} : tag);
        });
    };
    EXPECT_EQ(differ(at::ones({2}), {Site::StepSums}), "");
    const std::string message = differ(at::ones({2}), {Site::LayerNorms});
    for (const char* part :
         {"group dp: collective 1 is", "all-reduce of loss and gradient norm (8 bytes, Float)",
          "all-reduce of norms of the layers (8 bytes, Float)", "on rank 0"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(differ(at::ones({4}), {Site::StepSums}).find("(16 bytes"), std::string::npos);
    EXPECT_NE(differ(at::ones({2}, at::kInt), {Site::StepSums}).find("Int"), std::string::npos);
}

TEST(LocalFabric, AMessageThatIsNotTheExpectedOneIsNamed) {
    const std::string message = fault(2, [](Communicator& group, int rank) {
        if (rank == 0) return group.send(at::ones({2}), 1, {Site::Activation, 3, 0});
        group.wait(group.receive(at::ones({2}), 0, {Site::Activation, 3, 1}));
    });
    EXPECT_EQ(message,
              "group dp: message 0 from rank 0 to rank 1 is sent as send of activation, layer 3, "
              "micro-batch 0 (8 bytes, Float) and received as receive of activation, layer 3, "
              "micro-batch 1 (8 bytes, Float)");
}

TEST(LocalFabric, ASeedRepeatsTheOrderOfTheRanks) {
    const auto order = [](std::uint64_t seed) {
        std::string seen;
        EXPECT_EQ(fault(4,
                        [&](Communicator& group, int rank) {
                            for (int i = 0; i < 5; ++i) {
                                seen += std::to_string(rank);
                                barrier(group);
                            }
                        },
                        {.seed = seed}),
                  "");
        return seen;
    };
    EXPECT_EQ(order(1), order(1));
    EXPECT_NE(order(1), order(2));
}

TEST(LocalFabric, ADeadlockNamesWhatEachRankWaitsFor) {
    const std::string message = fault(2, [](Communicator& group, int rank) {
        group.wait(group.receive(at::ones({2}), 1 - rank, {Site::Activation, rank}));
    });
    EXPECT_EQ(
        message,
        "deadlock: every rank waits; rank 0 waits for group dp: receive of activation, layer 0 (8 "
        "bytes, Float); rank 1 waits for group dp: receive of activation, layer 1 (8 bytes, "
        "Float)");
}

// Each rank sends before it receives.
TEST(LocalFabric, ARendezvousSendWaitsForItsReceive) {
    const auto swap = [](Communicator& group, int rank) {
        const at::Tensor other = at::ones({2});
        group.send(at::ones({2}) * rank, 1 - rank, {Site::Activation});
        group.wait(group.receive(other, 1 - rank, {Site::Activation}));
        EXPECT_TRUE(other.equal(at::ones({2}) * (1 - rank)));
    };
    EXPECT_EQ(fault(2, swap), "");
    EXPECT_NE(fault(2, swap, {.rendezvous = true}).find("waits for group dp: send of activation"),
              std::string::npos);
}

TEST(LocalFabric, ARankThatLeavesIsLostToTheOthers) {
    EXPECT_EQ(fault(2,
                    [](Communicator& group, int rank) {
                        if (rank == 0) barrier(group);
                    }),
              "rank 1 left the group");
}

}  // namespace
}  // namespace roll::train
