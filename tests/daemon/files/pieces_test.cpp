#include "daemon/files/pieces.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/io/sha256.hpp"
#include "common/spec/job/staged_files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::files {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::uint64_t kJobBytes = 1000;

class PiecesTest : public ::testing::Test {
  protected:
    Pieces open(const std::set<std::string>& named = {}) {
        return Pieces::open(top, named, kJobBytes, now).value();
    }
    std::size_t stored() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(top / "files"), fs::directory_iterator()));
    }
    void age(const std::string& piece) const {
        fs::last_write_time(top / "files" / piece, fs::file_time_type::clock::now() - 2h);
    }

    TemporaryFolder top;
    Pieces::Instant now{100h};
};

TEST_F(PiecesTest, APieceIsStoredOnceByItsSha256) {
    Pieces pieces = open();
    const std::string piece = pieces.put("hello", now).value();
    EXPECT_EQ(piece, io::sha256("hello"));
    EXPECT_EQ(pieces.put("hello", now).value(), piece);
    EXPECT_EQ(stored(), 1u);
    EXPECT_EQ(pieces.read(piece).value(), "hello");
    const std::string none(64, '0');
    EXPECT_EQ(pieces.missing({piece, none}, now), std::vector{none});
    EXPECT_EQ(pieces.read("../web.token").error().code, ErrorCode::NotFound);
    EXPECT_EQ(pieces.size_of(piece), 5u);
    EXPECT_EQ(pieces.size_of(none), 0u);
    std::ofstream(top / "files" / piece) << "HELLO";
    EXPECT_EQ(pieces.read(piece).error().code, ErrorCode::Corrupt);
    for (const std::string& wrong : {std::string(), std::string(spec::kPieceBytes + 1, 'x')})
        EXPECT_EQ(pieces.put(wrong, now).error().code, ErrorCode::InvalidArgument);
}

TEST_F(PiecesTest, APieceOfAJobOutlivesARestartAndOthersGoAfterAnHour) {
    std::string named, old, young;
    {
        Pieces pieces = open();
        named = pieces.put("named", now).value();
        old = pieces.put("old", now).value();
        young = pieces.put("young", now).value();
        pieces.name({named});
    }
    for (const std::string& piece : {named, old}) age(piece);
    std::ofstream(top / "files/.half-written") << "x";
    fs::last_write_time(top / "files/.half-written", fs::file_time_type::clock::now() - 2h);
    Pieces pieces = open({named});
    EXPECT_EQ(pieces.missing({named, old, young}, now), std::vector{old});
    EXPECT_EQ(stored(), 2u);
    now += kUnnamedFor;
    EXPECT_TRUE(pieces.put("another", now));
    EXPECT_EQ(pieces.missing({named, young}, now), std::vector{young});
    age(named);
    EXPECT_EQ(open().missing({named}, now), std::vector{named}) << "its job was forgotten";
}

TEST_F(PiecesTest, PiecesThatWaitForTheirJobAreLimitedAndAQuestionKeepsThem) {
    Pieces pieces = open();
    std::vector<std::string> put;
    for (char c = 'a'; c < 'a' + 16; ++c)
        put.push_back(pieces.put(std::string(kJobBytes, c), now).value());
    const auto refused = pieces.put("more", now);
    EXPECT_EQ(refused.error().code, ErrorCode::Refused);
    EXPECT_TRUE(pieces.put("of another user", now, "bob"));
    pieces.name({put[0]});
    EXPECT_TRUE(pieces.put("more", now));
    now += kUnnamedFor - 1s;
    EXPECT_TRUE(pieces.missing({put[1]}, now).empty());
    now += 1s;
    EXPECT_TRUE(pieces.put(std::string(kJobBytes, 'z'), now)) << "room for others again";
    EXPECT_EQ(pieces.missing({put[0], put[1], put[2]}, now), std::vector{put[2]});
}

}  // namespace
}  // namespace roll::files
