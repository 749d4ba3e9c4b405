#include "daemon/server/take_over.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

namespace roll::server {
namespace {

using namespace std::chrono_literals;

class TakeOver : public testing::Test {
  protected:
    TakeOver() {
        options_.cluster = "cluster";
        options_.home = "copy";
        options_.nonce = "this";
        options_.endpoint = "tcp://host:7070";
        options_.beacon = folder_ / "beacon";
        options_.leases.stillness = options_.leases.claim_wait = 1ms;
        state_.incarnation = 1;
        io::Beacon other = own_beacon(options_, 1);
        other.home = "original";
        other.nonce = "other";
        other.counter = 7;
        write(other);
    }

    void write(const io::Beacon& beacon) { EXPECT_TRUE(io::write_beacon(options_.beacon, beacon)); }

    TemporaryFolder folder_;
    ServerOptions options_;
    core::State state_;
};

// The first take-over ends after its claim, before the ledger has its incarnation.
TEST_F(TakeOver, OneThatWasInterruptedIsRepeated) {
    for (const char* nonce : {"first", "second", "third"}) {
        options_.nonce = nonce;
        const auto started = claim_beacon(options_, state_);
        ASSERT_TRUE(started) << nonce << ": " << started.error().message;
        EXPECT_EQ(started->at_least, 2);
        EXPECT_TRUE(started->adopting);
    }
}

TEST_F(TakeOver, ALedgerOlderThanTheRolldThatServedIsRefused) {
    write(own_beacon(options_, 2));
    const auto started = claim_beacon(options_, state_);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ErrorCode::Refused);
    EXPECT_NE(started.error().message.find("the ledger is older than the beacon file"),
              std::string::npos);
}

TEST_F(TakeOver, AnInterruptedTakeOverFromAnotherDirectoryIsRefused) {
    options_.home = "another";
    ASSERT_TRUE(claim_beacon(options_, state_));
    options_.home = "copy";
    EXPECT_FALSE(claim_beacon(options_, state_));
}

}  // namespace
}  // namespace roll::server
