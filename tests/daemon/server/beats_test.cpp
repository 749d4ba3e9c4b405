// Tests when a real rolld publishes beats, from where it counts silence, and what it does about the
// beacon of another rolld.
#include <array>
#include <cstring>

#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/io/beacon.hpp"
#include "common/io/descriptor.hpp"
#include "tests/daemon/server/daemon.hpp"

namespace roll {
namespace {

TEST(Beats, ComeOnlyInCompanyAndAnswersCountFromTheRenewal) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.heartbeat.heard_recently = false;
    for (int i = 0; i < 15; ++i) {
        worker.beat();
        worker.hear(100ms);
        std::this_thread::sleep_for(200ms);  // long enough in total for two beats
    }
    EXPECT_EQ(io::read_beacon(daemon.directory().beacon())->counter, 0u);
    worker.heartbeat.heard_recently = true;
    worker.until([](const auto& answer) { return answer.counter >= 2; });
    EXPECT_GE(io::read_beacon(daemon.directory().beacon())->counter, 2u);
}

// Another worker of the node comes first. It is the only worker, so rolld could count no silence
// of the one before if it were not company.
TEST(Beats, AfterARestartAnotherWorkerOfTheNodeWaitsForTheOneBeforeAndIsCompany) {
    Daemon daemon;
    daemon.start();
    const auto name = [](FakeWorker& worker, const char* session, const char* home) {
        worker.heartbeat.session = session;
        worker.heartbeat.home = home;
    };
    {
        FakeWorker before(daemon);
        name(before, "s1", "dir1@host1");
        before.until([](const auto& answer) { return answer.refused.empty(); });
    }
    daemon.end(SIGKILL);
    daemon.start();
    const auto counter = [&] { return io::read_beacon(daemon.directory().beacon())->counter; };
    FakeWorker other(daemon);
    name(other, "s2", "dir2@host2");
    const auto refused = other.until([](const auto&) { return true; });
    EXPECT_NE(refused.refused.find("belongs to a silent roll-worker"), std::string::npos);
    EXPECT_TRUE(refused.keep_asking);
    const auto begin = counter();
    other.until([&](const auto& answer) {
        EXPECT_NE(answer.refused, "");
        return counter() >= begin + 2;
    });
    FakeWorker back(daemon);
    name(back, "s1", "dir1@host1");
    back.until([](const auto& answer) { return answer.refused.empty(); });
    const auto late = other.until([](const auto&) { return true; });
    EXPECT_NE(late.refused.find("already runs a roll-worker"), std::string::npos);
    EXPECT_FALSE(late.keep_asking);
}

// Records which files are written, in order.
class Writes {
  public:
    Writes() : watch_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}
    void watch(const std::filesystem::path& file) {
        const int number = ::inotify_add_watch(watch_.get(), file.c_str(), IN_MODIFY);
        ASSERT_GE(number, 0) << file;
        files_[number] = file.filename();
    }
    // Returns the files written since the last call.
    std::vector<std::string> take() {
        std::vector<std::string> names;
        alignas(inotify_event) std::array<char, 4096> bytes{};
        for (ssize_t n = 0; (n = ::read(watch_.get(), bytes.data(), bytes.size())) > 0;) {
            for (ssize_t at = 0; at < n;) {
                inotify_event event{};
                std::memcpy(&event, bytes.data() + at, sizeof event);
                names.push_back(files_[event.wd]);
                at += static_cast<ssize_t>(sizeof event + event.len);
            }
        }
        return names;
    }

  private:
    io::Descriptor watch_;
    std::map<int, std::string> files_;
};

// A worker that does not hear rolld keeps the beat from being published, so the beat is overdue.
// The turn that reads the next worker's first heartbeat commits that the worker joined, and
// publishes the beat.
TEST(Beats, ComeAfterTheCommitOfTheirTurn) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    Writes writes;
    for (int round = 0; round < 8; ++round) {
        worker.heartbeat.heard_recently = false;
        worker.until([](const auto&) { return true; });
        const std::uint64_t before = io::read_beacon(daemon.directory().beacon())->counter;
        std::this_thread::sleep_for(1200ms);
        if (round == 0) {
            writes.watch(daemon.directory().ledger().string() + "-wal");
            writes.watch(daemon.directory().beacon());
        }
        writes.take();
        worker.heartbeat.session = "session-" + std::to_string(round + 2);
        worker.heartbeat.heard_recently = true;
        worker.beat();
        ASSERT_TRUE(eventually(
            [&] { return io::read_beacon(daemon.directory().beacon())->counter > before; }));
        const std::vector<std::string> written = writes.take();
        ASSERT_FALSE(written.empty());
        EXPECT_EQ(written.front(), "ledger.db-wal");
        EXPECT_EQ(written.back(), "beacon");
    }
}

// If the answer named the beacon's newest counter, the worker's deadline would be later than
// rolld's count of silence allows, and its job could be given away while it runs.
TEST(Beats, AWorkerThatDoesNotRenewIsToldTheCounterOfItsRenewal) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    ASSERT_TRUE(client.ask("submit", submit_args("k1"), 30s));
    worker.until([](const auto& answer) { return !answer.start.empty(); });
    worker.heartbeat.bound_below_lease = false;
    const auto first = worker.until(
        [&](const auto& answer) { return answer.sequence == worker.heartbeat.sequence; });
    const auto later = worker.until([](const auto& answer) { return answer.counted >= 3; });
    EXPECT_EQ(later.counter, first.counter);
    EXPECT_GE(io::read_beacon(daemon.directory().beacon())->counter, first.counter + 3);
}

// Copies all files except sockets.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
        const auto target = to / std::filesystem::relative(entry.path(), from);
        if (entry.is_directory()) std::filesystem::create_directories(target);
        if (entry.is_regular_file()) std::filesystem::copy_file(entry.path(), target);
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(to))
        if (entry.is_directory()) ::chmod(entry.path().c_str(), 0700);
}

// The state directory was copied while its rolld continued, on this machine or one of the same
// name.
TEST(Beats, ACopyOfAStateDirectoryTakesNoLivingClusterOver) {
    Daemon shared;
    Daemon daemon;
    const std::vector<std::string> words{"--shared", shared.root.string(), "--stillness", "3"};
    daemon.start(words);
    FakeWorker worker(daemon);
    worker.until([](const auto& answer) { return answer.counter > 0; });
    Daemon copy;
    copy_files(daemon.root, copy.root);
    copy.launch(words);
    std::atomic<bool> ended{false};
    std::thread beats([&] {
        while (!ended) {
            worker.beat();
            std::this_thread::sleep_for(100ms);
        }
    });
    EXPECT_EQ(copy.wait(), 4);
    ended = true;
    beats.join();
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    copy.start(words);
    const auto seen = io::read_beacon(shared.directory().beacon());
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->incarnation, 2u) << "the first one is dead: its beacon stands still";
}

TEST(Beats, ARestoreMindsTheBeaconOfTheSharedVolume) {
    Daemon shared;
    Daemon daemon;
    const std::vector<std::string> words{"--shared", shared.root.string()};
    daemon.start(words);
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    Daemon backup;
    std::filesystem::remove(backup.root);
    const std::string copy = backup.root.string();
    const auto run = [&](std::vector<std::string> more) {
        more.insert(more.end(), words.begin(), words.end());
        daemon.launch(std::move(more));
        return daemon.wait();
    };
    EXPECT_EQ(run({"--backup", copy}), 0);
    for (int i = 0; i < 3; ++i) {
        daemon.start(words);
        EXPECT_EQ(daemon.end(SIGTERM), 0);
    }
    EXPECT_EQ(run({"--restore", copy}), 0);
    daemon.start(words);
    EXPECT_EQ(daemon.end(SIGTERM), 0);
}

TEST(Beats, WaitsForTheOneBeforeToEndAndSaysSo) {
    Daemon daemon;
    daemon.start();
    ASSERT_EQ(::kill(daemon.pid(), SIGSTOP),
              0);  // a stopped rolld looks like a killed rolld that still frees its memory
    Daemon second;
    second.root.swap(daemon.root);
    second.launch();
    std::this_thread::sleep_for(1500ms);
    int status = 0;
    EXPECT_EQ(::waitpid(second.pid(), &status, WNOHANG), 0) << "it waits";
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    EXPECT_TRUE(eventually([&] { return second.directory().read_endpoint().has_value(); }));
    EXPECT_TRUE(second.client().ask("version", Json::object(), 30s));
    EXPECT_EQ(second.end(SIGTERM), 0);
    second.root.swap(daemon.root);
}

}  // namespace
}  // namespace roll
