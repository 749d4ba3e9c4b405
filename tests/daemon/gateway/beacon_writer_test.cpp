#include "daemon/gateway/beacon_writer.hpp"

#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

namespace roll::gateway {
namespace {

using namespace std::chrono_literals;

struct Folder {
    std::filesystem::path beacon() const { return path / "beacon"; }
    TemporaryFolder path;
};

// Leases rule 1: a rolld whose turn does not end publishes no beat, however long the turn takes.
TEST(BeaconWriter, PublishesOnlyWhatItIsAskedFor) {
    const Folder folder;
    io::Beacon first;
    first.cluster = "c";
    first.incarnation = 3;
    first.nonce = "n";
    BeaconWriter writer(folder.beacon(), first, 20ms);
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(writer.published(), 0u);
    EXPECT_EQ(io::read_beacon(folder.beacon())->counter, 0u);
    writer.beat();
    for (int i = 0; i < 1000 && writer.published() == 0; ++i) std::this_thread::sleep_for(5ms);
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(writer.published(), 1u) << "one for each time that it is asked";
    EXPECT_EQ(io::read_beacon(folder.beacon())->counter, 1u);
}

// A beat counts once its write has returned. A beat that cannot be written does not count.
TEST(BeaconWriter, CountsNoBeatThatItCouldNotWrite) {
    io::Beacon first;
    first.cluster = "c";
    first.nonce = "n";
    const Folder folder;
    BeaconWriter writer(folder.path / "missing" / "beacon", first, 1ms);
    for (int i = 0; i < 20; ++i) {
        writer.beat();
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(writer.published(), 0u);
}

// Leases rule 18: the beacon of a rolld that took over is not overwritten.
TEST(BeaconWriter, ANewerRolldsBeaconIsLeftAsItIs) {
    const Folder folder;
    io::Beacon own;
    own.cluster = "c";
    own.incarnation = 3;
    io::Beacon newer = own;
    newer.incarnation = 4;
    ASSERT_TRUE(io::write_beacon(folder.beacon(), newer));
    BeaconWriter writer(folder.beacon(), own, 1ms);
    for (int i = 0; i < 1000 && !writer.superseded(); ++i) {
        writer.beat();
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(writer.superseded());
    EXPECT_EQ(writer.published(), 0u);
    EXPECT_EQ(io::read_beacon(folder.beacon())->incarnation, 4u);
}

// Leases rule 18: a rolld that was suspended reads the beacon before its turn acts. The test waits
// instead of suspending.
TEST(BeaconWriter, ALookThatIsOldIsTakenAgainBeforeATurn) {
    const Folder folder;
    io::Beacon own;
    own.cluster = "c";
    own.incarnation = 3;
    BeaconWriter writer(folder.beacon(), own, 1ms);
    for (int i = 0; i < 1000 && !io::read_beacon(folder.beacon()); ++i)
        std::this_thread::sleep_for(5ms);
    io::Beacon newer = own;
    newer.incarnation = 4;
    ASSERT_TRUE(io::write_beacon(folder.beacon(), newer));
    writer.look_again();
    EXPECT_FALSE(writer.superseded()) << "what was seen a moment ago is believed";
    std::this_thread::sleep_for(3100ms);
    writer.look_again();
    EXPECT_TRUE(writer.superseded());
    EXPECT_EQ(writer.published(), 0u);
}

// A volume that cannot be read shows nothing. A missing file shows that no rolld has claimed it.
TEST(BeaconWriter, KnowsForHowLongItCouldNotReadItsFile) {
    const Folder folder;
    BeaconWriter writer(folder.beacon(), {}, 1ms);
    const auto beat_until = [&](auto condition) {
        for (int i = 0; i < 1000 && !condition(); ++i) {
            writer.beat();
            std::this_thread::sleep_for(5ms);
        }
        return condition();
    };
    ASSERT_TRUE(beat_until([&] { return writer.published() > 2; }));
    EXPECT_LT(writer.unread_for(), 1s);
    std::filesystem::remove(folder.beacon());
    std::filesystem::create_directory(folder.beacon());  // a directory cannot be read as a file
    EXPECT_TRUE(beat_until([&] { return writer.unread_for() > 1s; }));
    std::filesystem::remove(folder.beacon());
    EXPECT_TRUE(beat_until([&] { return writer.unread_for() < 500ms; }));
}

// Opening a FIFO without a writer blocks the thread, as a volume that hangs does.
TEST(BeaconWriter, SaysIfItsThreadDoesNotComeBack) {
    const Folder folder;
    ASSERT_EQ(::mkfifo(folder.beacon().c_str(), 0600), 0);
    BeaconWriter writer(folder.beacon(), {}, 1ms);
    std::this_thread::sleep_for(300ms);
    EXPECT_FALSE(writer.end(200ms));
    const int both_ends = ::open(folder.beacon().c_str(), O_RDWR);
    EXPECT_TRUE(writer.end(10s));
    ::close(both_ends);
}

// A caller that sleeps until a beat is due and then requests the beat gets it. Otherwise each
// request would be a moment too early, and beats would come half as often.
TEST(BeaconWriter, ABeatAskedForWhenItIsDueIsTaken) {
    io::Beacon first;
    BeaconWriter writer({}, first, 500ms);
    writer.beat();
    for (std::uint64_t beats = 1; beats < 4; ++beats) {
        ASSERT_EQ(writer.published(), beats);
        ASSERT_GT(writer.until_due(), 0ms);
        std::this_thread::sleep_for(100ms);
        ASSERT_LE(writer.until_due(), 400ms) << "counted from the last beat, not from now";
        std::this_thread::sleep_for(writer.until_due());
        writer.beat();
    }
    std::this_thread::sleep_for(600ms);
    EXPECT_EQ(writer.until_due(), 500ms) << "one that nobody asked for is no reason to spin";
}

}  // namespace
}  // namespace roll::gateway
