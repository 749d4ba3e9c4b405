// Tests the in-process group, and Gloo between real processes (forked before any thread exists). A
// child process reports a failed check by its exit status.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"
#include "tests/worker/train/processes.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

at::Tensor ranks_part(int rank, std::int64_t size) {
    return at::arange(size, at::kDouble) * (rank + 1) + rank;
}

// Returns true if the sums of three tensors that are in flight at once are right.
bool sums_rightly(Communicator& group) {
    std::vector<at::Tensor> sums;
    std::vector<Communicator::Ticket> tickets;
    for (const std::int64_t size : {1, 7, 100'003}) {
        sums.push_back(ranks_part(group.rank(), size));
        tickets.push_back(group.all_reduce(sums.back(), Reduce::Sum, {Site::Bucket}));
    }
    bool right = true;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        group.wait(tickets[i]);
        at::Tensor expected = at::zeros_like(sums[i]);
        for (int rank = 0; rank < group.size(); ++rank)
            expected += ranks_part(rank, sums[i].numel());
        right = right && sums[i].equal(expected);
    }
    return right;
}

// Returns true if messages of two sites between neighbours arrive in order.
bool passes_messages_on(Communicator& group) {
    const int next = (group.rank() + 1) % group.size(),
              last = (group.rank() + group.size() - 1) % group.size();
    group.send(ranks_part(group.rank(), 3), next, {Site::Activation, 1});
    group.send(ranks_part(group.rank(), 5), next, {Site::Gradient, 1});
    group.send(ranks_part(group.rank() + 7, 3), next, {Site::Activation, 2});
    const at::Tensor gradient = at::empty({5}, at::kDouble), first = at::empty({3}, at::kDouble),
                     second = at::empty({3}, at::kDouble);
    const auto late = group.receive(gradient, last, {Site::Gradient, 1});
    group.wait(group.receive(first, last, {Site::Activation, 1}));
    group.wait(group.receive(second, last, {Site::Activation, 2}));
    group.wait(late);
    return gradient.equal(ranks_part(last, 5)) && first.equal(ranks_part(last, 3)) &&
           second.equal(ranks_part(last + 7, 3));
}

// Returns true if the group lets go of a tensor after it was sent.
bool releases_what_it_sent(Communicator& group) {
    const int next = (group.rank() + 1) % group.size(),
              last = (group.rank() + group.size() - 1) % group.size();
    const at::Tensor sent = ranks_part(group.rank(), 1000), received = at::empty_like(sent);
    group.send(sent, next, {Site::Activation, 1});
    group.wait(group.receive(received, last, {Site::Activation, 1}));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (sent.use_count() > 1 && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return sent.use_count() == 1 && received.equal(ranks_part(last, 1000));
}

// Returns true if the collectives other than a sum are right, in each type that a job trains in.
bool gathers_and_scatters(Communicator& group, at::ScalarType type) {
    const int ranks = group.size(), rank = group.rank();
    const auto part = [&](int of, std::int64_t rows) {
        return ranks_part(of, rows * 2).view({rows, 2}).to(type);
    };
    const at::Tensor all = at::empty({ranks * 3, 2}, type), own = at::empty({3, 2}, type);
    const at::Tensor largest = part(rank, 3).neg(), told = part(rank, 3);
    const auto gather = group.all_gather(all, part(rank, 3), {Site::Weights, 1});
    const auto scatter = group.reduce_scatter(own, part(rank, ranks * 3), {Site::Bucket, 2});
    const auto max = group.all_reduce(largest, Reduce::Max, {Site::LayerNorms});
    const auto tell = group.broadcast(told, ranks - 1, {Site::Agreement});
    for (const auto ticket : {tell, scatter, max, gather}) group.wait(ticket);
    at::Tensor sum = part(0, ranks * 3);
    std::vector<at::Tensor> parts;
    for (int of = 0; of < ranks; ++of) parts.push_back(part(of, 3));
    for (int of = 1; of < ranks; ++of) sum += part(of, ranks * 3);
    return all.equal(at::cat(parts)) && own.equal(sum.narrow(0, rank * 3, 3)) &&
           largest.equal(part(0, 3).neg()) && told.equal(part(ranks - 1, 3)) &&
           gather_over(group, part(rank, 3), {Site::Loss}).equal(at::stack(parts));
}

// Runs the checks for every kind of group, as one rank of it.
bool speaks_rightly(Communicator& group) {
    const bool right = sums_rightly(group) && passes_messages_on(group) &&
                       releases_what_it_sent(group) && gathers_and_scatters(group, at::kDouble) &&
                       gathers_and_scatters(group, at::kFloat) &&
                       gathers_and_scatters(group, at::kBFloat16);
    barrier(group);
    return right;
}

// The ranks are threads of their own, because the Gloo tests below fork the main thread.
TEST(LocalGroup, SpeaksRightly) {
    for (const int size : {1, 3}) {
        LocalGroup group(size);
        std::vector<std::thread> ranks;
        std::atomic<int> right = 0;
        for (int rank = 0; rank < size; ++rank) {
            ranks.emplace_back([&, rank] {
                LocalCommunicator self(group, rank);
                right += speaks_rightly(self);
            });
        }
        for (std::thread& rank : ranks) rank.join();
        EXPECT_EQ(right, size);
    }
}

TEST(LocalGroup, TellsWhoWaitsThatARankHasLeft) {
    LocalGroup group(2);
    LocalCommunicator stays(group, 0);
    { const LocalCommunicator leaves(group, 1); }
    EXPECT_THROW(sum_over(stays, at::ones({3}), {Site::StepSums}), PeerLost);
    const auto ticket = stays.receive(at::empty({3}), 1, {Site::Activation});
    EXPECT_THROW(stays.wait(ticket), PeerLost);
}

TEST(Transfer, IsToldByItsKindAndTag) {
    const at::Tensor tensor = at::ones({1});
    EXPECT_EQ(text({Transfer::Kind::AllReduce, {Site::RowOutput, 3, 1}, tensor, tensor}),
              "all-reduce of row output, layer 3, micro-batch 1");
    EXPECT_EQ(text({Transfer::Kind::Send, {Site::Weights, 0}, tensor, {}}),
              "send of weights, parameter 0");
}

FabricOptions fabric_options(const TemporaryFolder& folder, int rank) {
    return {.rendezvous_file = folder / "rendezvous",
            .nonce = "n1",
            .prefix = "7/3-1",
            .rank = rank,
            .connect_timeout = std::chrono::seconds(120),
            .collective_timeout = std::chrono::seconds(120)};
}

TEST(Gloo, SpeaksRightly) {
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
    const std::filesystem::path file = folder / "rendezvous";
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
