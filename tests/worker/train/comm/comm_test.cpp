// Tests the in-process group, and Gloo between real processes (forked before any thread exists). A
// child process reports a failed check by its exit status.
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/worker/train/processes.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/comm/rendezvous.hpp"

namespace roll::train {
namespace {

at::Tensor ranks_part(int rank, std::int64_t size) {
    return at::arange(size, at::kDouble) * (rank + 1) + rank;
}

// Runs the checks for every kind of group, as one rank of it.
bool speaks_rightly(Communicator& group) {
    const int next = (group.rank() + 1) % group.size(),
              last = (group.rank() + group.size() - 1) % group.size();
    std::vector<at::Tensor> sums;
    std::vector<Communicator::Ticket> tickets;
    for (const std::int64_t size : {1, 7, 100'003}) {
        sums.push_back(ranks_part(group.rank(), size));
        tickets.push_back(group.all_reduce(sums.back()));
    }
    group.send(ranks_part(group.rank(), 3), next, Channel::Activation);
    group.send(ranks_part(group.rank(), 5), next, Channel::Gradient);
    group.send(ranks_part(group.rank() + 7, 3), next, Channel::Activation);
    at::Tensor gradient = at::empty({5}, at::kDouble), first = at::empty({3}, at::kDouble),
               second = at::empty({3}, at::kDouble);
    group.recv(gradient, last, Channel::Gradient);
    group.recv(first, last, Channel::Activation);
    group.recv(second, last, Channel::Activation);
    bool right = gradient.equal(ranks_part(last, 5)) && first.equal(ranks_part(last, 3)) &&
                 second.equal(ranks_part(last + 7, 3));
    for (std::size_t i = 0; i < sums.size(); ++i) {
        group.wait(tickets[i]);
        at::Tensor expected = at::zeros_like(sums[i]);
        for (int rank = 0; rank < group.size(); ++rank)
            expected += ranks_part(rank, sums[i].numel());
        right = right && sums[i].equal(expected);
    }
    barrier(group);
    return right;
}

TEST(LocalGroup, SumsAndPassesMessagesOn) {
    LocalGroup group(3);
    std::vector<std::thread> ranks;
    std::atomic<int> right = 0;
    for (int rank = 0; rank < 3; ++rank) {
        ranks.emplace_back([&, rank] {
            LocalCommunicator self(group, rank);
            right += speaks_rightly(self);
        });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(right, 3);
}

TEST(LocalGroup, TellsWhoWaitsThatARankHasLeft) {
    LocalGroup group(2);
    LocalCommunicator stays(group, 0);
    { const LocalCommunicator leaves(group, 1); }
    EXPECT_THROW(sum_over(stays, at::ones({3})), PeerLost);
    at::Tensor message = at::empty({3});
    EXPECT_THROW(stays.recv(message, 1, Channel::Activation), PeerLost);
}

FabricOptions fabric_options(const TemporaryFolder& folder, int rank) {
    return {.rendezvous_file = folder.path() / "rendezvous",
            .nonce = "n1",
            .prefix = "7/3-1",
            .rank = rank,
            .connect_timeout = std::chrono::seconds(120),
            .collective_timeout = std::chrono::seconds(120)};
}

TEST(Gloo, SumsAndPassesMessagesOn) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(3, [&](int rank) {
        GlooFabric fabric(fabric_options(folder, rank));
        const auto world = fabric.group("world", {0, 1, 2});
        const auto pair = rank == 1 ? nullptr : fabric.group("pair", {2, 0});
        const bool right = speaks_rightly(*world) && (!pair || speaks_rightly(*pair)) &&
                           (!pair || pair->rank() == (rank == 2 ? 0 : 1));
        barrier(*world);
        return right ? 0 : 1;
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0}));
}

TEST(Gloo, APeersDeathIsPeerLostAtOnce) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(3, [&](int rank) {
        GlooFabric fabric(fabric_options(folder, rank));
        const auto world = fabric.group("world", {0, 1, 2});
        barrier(*world);
        if (rank == 1) std::raise(SIGKILL);
        try {
            while (true) barrier(*world);
        } catch (const PeerLost&) {
            return 76;
        }
    });
    EXPECT_EQ(statuses, (std::vector<int>{76, 128 + SIGKILL, 76}));
}

TEST(Gloo, ARankThatNeverComesIsPeerLost) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(1, [&](int) {
        FabricOptions options = fabric_options(folder, 1);
        options.connect_timeout = std::chrono::milliseconds(200);
        try {
            GlooFabric fabric(options);
        } catch (const PeerLost&) {
            return 76;
        }
        return 0;
    });
    EXPECT_EQ(statuses, std::vector<int>{76});
}

TEST(Rendezvous, AnEarlierAttemptsFileIsWaitedPast) {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "rendezvous";
    ASSERT_TRUE(write_rendezvous(file, {"old", 1, "n0"}));
    EXPECT_FALSE(await_rendezvous(file, "n1", std::chrono::milliseconds(30)));
    std::thread writer([&] { EXPECT_TRUE(write_rendezvous(file, {"new", 2, "n1"})); });
    const auto address = await_rendezvous(file, "n1", std::chrono::seconds(60));
    writer.join();
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_EQ(*address, (StoreAddress{"new", 2, "n1"}));
}

}  // namespace
}  // namespace roll::train
