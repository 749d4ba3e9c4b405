#include "common/io/beacon.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::io {
namespace {

Beacon sample(std::uint64_t counter, std::uint64_t incarnation = 3) {
    return {.cluster = "c0ffee00c0ffee00",
            .incarnation = incarnation,
            .nonce = "0123456789abcdef",
            .host = "node-1",
            .endpoint = "ipc:///run/user/1000/roll/abc.sock",
            .home = "4711",
            .counter = counter};
}

class BeaconFile : public testing::Test {
  protected:
    std::filesystem::path path() const { return folder_ / "beacon"; }

  private:
    TemporaryFolder folder_;
};

TEST(Beacon, RecordComesBackAsItWasWritten) {
    const auto record = encode_beacon(sample(41));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->size(), kBeaconRecordBytes);
    EXPECT_EQ(decode_beacon(*record).value(), sample(41));
}

TEST(Beacon, EveryChangedByteIsNoticed) {
    const std::string record = encode_beacon(sample(41)).value();
    for (std::size_t i = 0; i < record.size(); ++i) {
        std::string torn = record;
        torn[i] = static_cast<char>(torn[i] ^ 1);
        EXPECT_FALSE(decode_beacon(torn)) << "byte " << i;
    }
}

TEST(Beacon, NamesThatDoNotFitAreRefused) {
    Beacon beacon = sample(1);
    beacon.endpoint.assign(500, 'x');
    const auto record = encode_beacon(beacon);
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code, ErrorCode::InvalidArgument);
}

TEST(Beacon, NewerIncarnationWinsOverLargerCounter) {
    const std::string file =
        encode_beacon(sample(900, 3)).value() + encode_beacon(sample(1, 4)).value();
    EXPECT_EQ(newest_beacon(file).value(), sample(1, 4));
}

TEST_F(BeaconFile, ReadShowsTheLastWrite) {
    EXPECT_EQ(read_beacon(path()).error().code, ErrorCode::NotFound);
    for (std::uint64_t counter = 0; counter < 5; ++counter) {
        ASSERT_TRUE(write_beacon(path(), sample(counter)));
        EXPECT_EQ(read_beacon(path()).value().counter, counter);
    }
    EXPECT_EQ(std::filesystem::file_size(path()), kBeaconFileBytes);
}

TEST_F(BeaconFile, TornWriteLeavesTheOtherRecord) {
    ASSERT_TRUE(write_beacon(path(), sample(6)));
    ASSERT_TRUE(write_beacon(path(), sample(7)));
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(beacon_offset(8)));
    file << "half a rec";
    file.close();
    EXPECT_EQ(read_beacon(path()).value().counter, 7u);
}

}  // namespace
}  // namespace roll::io
