// Tests starts of rolld from a snapshot: State must be the same as from the events, or the snapshot
// must not be used.
#include "daemon/ledger/snapshot.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "daemon/core/apply/apply.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/state_bytes.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::ledger {
namespace {

using namespace std::chrono_literals;
constexpr Time kStart{1'700'000'000'000ms};

class SnapshotTest : public testing::Test {
  protected:
    // Returns the events that queue job `id`.
    static core::Events job(std::uint64_t id) {
        spec::JobSpec spec;
        spec.name = "j" + std::to_string(id);
        spec.output = "/o";
        spec.document = "{}";
        spec.begin = kStart + 1h;
        spec.retry.on_exit[3] = {spec::OnExit::AvoidNode, "bad"};
        if (id > 1) spec.after = {{spec::After::Condition::Any, JobId{id - 1}}};
        return {core::JobSubmitted{JobId{id}, "k" + std::to_string(id), "ann", spec, kStart}};
    }
    static core::Events history(std::uint64_t first, std::uint64_t last) {
        core::Events events;
        for (std::uint64_t id = first; id <= last; ++id) {
            for (core::Event& event : job(id)) events.push_back(std::move(event));
        }
        return events;
    }
    static core::Events running() {
        const AttemptKey key{JobId{1}, Token{1, 1}};
        return {core::IncarnationRaised{1, kStart},
                core::WorkerJoined{WorkerId{1}, "n1", "s1", 4, 2, kStart},
                core::JobDue{JobId{1}},
                core::AttemptPlaced{key, {core::Place{WorkerId{1}, {0, 2}, {1}}}, kStart},
                core::MemberUp{key, WorkerId{1}},
                core::AttemptStarted{key, kStart},
                core::CheckpointRecorded{key, 7, "/o/checkpoints/7", kStart}};
    }
    static core::State fold(const core::Events& events) {
        core::State state;
        for (const core::Event& event : events) core::apply(state, event);
        return state;
    }
    // Creates a ledger with jobs 1 to 9, a snapshot, and then jobs 10 to 12. Returns its state.
    core::State make_ledger() {
        auto ledger = Ledger::open(folder_);
        core::Events events = history(1, 9);
        for (core::Event& event : running()) events.push_back(std::move(event));
        EXPECT_TRUE(ledger->append(events, kStart));
        ledger->keep_snapshot(fold(events), true);
        EXPECT_TRUE(ledger->append(history(10, 12), kStart));
        for (core::Event& event : history(10, 12)) events.push_back(std::move(event));
        return fold(events);
    }
    std::filesystem::path path() const { return folder_ / "ledger.snapshot"; }

    TemporaryFolder folder_;
};

TEST_F(SnapshotTest, StateComesBackFromItsBytes) {
    const core::State state = make_ledger();
    const auto again = state_from(bytes_of(state));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, state);
    EXPECT_NE(*again, core::State{});
}

TEST_F(SnapshotTest, ALargeStateIsWrittenInPieces) {
    core::Events events = history(1, 3);
    for (core::Event& event : events)
        std::get<core::JobSubmitted>(event).spec.document =
            std::string(300'000, static_cast<char>('a' + event.index()));
    const core::State state = fold(events);
    std::vector<std::size_t> sizes;
    std::string all;
    write_bytes(state, [&](std::string_view piece) {
        sizes.push_back(piece.size());
        all += piece;
    });
    EXPECT_GE(sizes.size(), 3u);
    EXPECT_EQ(all, bytes_of(state));
    ASSERT_TRUE(write_snapshot(path(), {3, 42}, state));
    const auto written = read_snapshot(path());
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(written->at, (Mark{3, 42}));
    EXPECT_EQ(written->state, state);
}

TEST_F(SnapshotTest, SimilarDocumentsAreSharedAgain) {
    core::Events events = history(1, 3);
    for (core::Event& event : events) {
        auto& submitted = std::get<core::JobSubmitted>(event);
        submitted.spec.document = std::string(100, 'x') + std::to_string(submitted.job.value);
    }
    const core::State state = fold(events);
    const auto again = state_from(bytes_of(state));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, state);
    EXPECT_EQ(again->jobs.at(JobId{2}).spec.document.own_size(), 1u);
    EXPECT_EQ(again->jobs.at(JobId{3}).spec.document.own_size(), 1u);
}

TEST_F(SnapshotTest, BytesThatAreCutAreRefused) {
    const std::string bytes = bytes_of(make_ledger());
    for (std::size_t size = 0; size < bytes.size(); size += 13)
        EXPECT_FALSE(state_from(std::string_view(bytes).substr(0, size))) << size;
    EXPECT_FALSE(state_from(bytes + "x"));
}

TEST_F(SnapshotTest, AStartTakesItAndFoldsWhatFollows) {
    const core::State expected = make_ledger();
    // Change a name in the snapshot only. load() then shows whether it used the snapshot.
    auto snapshot = read_snapshot(path());
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    EXPECT_EQ(snapshot->at.seq, 16);
    EXPECT_EQ(*Ledger::open(folder_)->load(), expected);
    snapshot->state.jobs.at(JobId{3}).spec.name = "of the snapshot";
    ASSERT_TRUE(write_snapshot(path(), snapshot->at, snapshot->state));
    const auto ledger = Ledger::open(folder_);
    EXPECT_EQ(ledger->load()->jobs.at(JobId{3}).spec.name, "of the snapshot");
    EXPECT_EQ(ledger->load()->jobs.size(), 12u);
    EXPECT_EQ(*ledger->fold(), expected) << "the events alone";
}

TEST_F(SnapshotTest, AFlippedByteAnywhereIsFoundAndTheEventsAreFolded) {
    const core::State expected = make_ledger();
    const std::string whole = *read_file(path());
    for (std::size_t at = 0; at < whole.size(); at += 11) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
        ASSERT_TRUE(write_file_atomically(path(), bytes));
        EXPECT_FALSE(read_snapshot(path())) << "byte " << at;
        if (at % 5 > 0) continue;
        EXPECT_EQ(*Ledger::open(folder_)->load(), expected) << "byte " << at;
    }
    for (const std::size_t size : {0ul, 1ul, 60ul, 107ul, whole.size() - 1}) {
        ASSERT_TRUE(write_file_atomically(path(), whole.substr(0, size)));
        EXPECT_FALSE(read_snapshot(path())) << "cut at " << size;
    }
}

TEST_F(SnapshotTest, OneOfAnotherChainIsNotUsed) {
    const core::State expected = make_ledger();
    auto snapshot = read_snapshot(path());
    snapshot->state.next_job = 999;
    snapshot->at.hash ^= 1;
    ASSERT_TRUE(write_snapshot(path(), snapshot->at, snapshot->state));
    EXPECT_EQ(*Ledger::open(folder_)->load(), expected);
    snapshot->at = {500, snapshot->at.hash ^ 1};
    ASSERT_TRUE(write_snapshot(path(), snapshot->at, snapshot->state));
    EXPECT_EQ(*Ledger::open(folder_)->load(), expected);
}

TEST_F(SnapshotTest, AChildWritesItWhileTheCallerGoesOn) {
    core::State state = fold(history(1, 5));
    SnapshotWriter writer;
    ASSERT_TRUE(writer.start(path(), {5, 42}, state));
    core::apply(state, history(6, 6).front());
    while (writer.busy()) ::usleep(1000);
    const auto written = read_snapshot(path());
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(written->at, (Mark{5, 42}));
    EXPECT_EQ(written->state, fold(history(1, 5)));
}

TEST_F(SnapshotTest, OneIsWrittenOnceEnoughHasCome) {
    auto ledger = Ledger::open(folder_);
    const core::Events first = history(1, 100);
    ASSERT_TRUE(ledger->append(first, kStart));
    ledger->keep_snapshot(fold(first));
    EXPECT_FALSE(std::filesystem::exists(path()));
    core::Events held;
    for (int i = 0; i < 20'000; ++i) held.push_back(core::JobHeld{JobId{1}, i % 2 == 0});
    ASSERT_TRUE(ledger->append(held, kStart));
    core::State state = fold(first);
    for (const core::Event& event : held) core::apply(state, event);
    ledger->keep_snapshot(state);
    for (int i = 0; i < 5000 && !std::filesystem::exists(path()); ++i) ::usleep(1000);
    const auto written = read_snapshot(path());
    ASSERT_TRUE(written);
    EXPECT_EQ(written->state, state);
}

}  // namespace
}  // namespace roll::ledger
