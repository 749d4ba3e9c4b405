#include "daemon/gateway/rivals.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/core/desk.hpp"

namespace roll::gateway {
namespace {

using namespace std::chrono_literals;

// A core and Sessions, with one worker as node "a".
class Rivals : public ::testing::Test {
  protected:
    Rivals() { hear(worker("s1", "dir1@host1")); }
    static protocol::Heartbeat worker(const char* session, const char* home) {
        protocol::Heartbeat heartbeat;
        heartbeat.session = session;
        heartbeat.node = "a";
        heartbeat.slots = 2;
        heartbeat.home = home;
        heartbeat.process = "host host1, process 7";
        return heartbeat;
    }
    void hear(protocol::Heartbeat heartbeat) {
        heartbeat.sequence = ++sequence;
        for (const core::Input& input :
             sessions.hear(desk.state, {"route", "key"}, heartbeat, published, now))
            desk.tell(input);
    }
    std::string refusal(const char* session, const char* home) {
        return refusal_of(desk.state, sessions, worker(session, home), now);
    }

    core::Desk desk;
    Sessions sessions{LeaseRules{}};
    std::uint64_t sequence = 0;
    std::uint64_t published = 0;
    Instant now{1h};
};

TEST_F(Rivals, ASecondWorkerIsRefusedWhileTheFirstMayRunItsAttempts) {
    EXPECT_EQ(refusal("s2", "dir2@host2"),
              "node a already runs a roll-worker (host host1, process 7); start this roll-worker "
              "with another --node, or end the other roll-worker");
    EXPECT_NE(refusal("s2", "dir1@host2"), "") << "the same directory on another host";
    EXPECT_EQ(refusal("s1", "dir1@host1"), "") << "the first one itself";
    desk.submit(core::wants(1, 1));
    now += 1h;
    EXPECT_NE(refusal("s2", "dir2@host2"), "") << "silent, but its attempts may run";
    published = 35;
    for (const core::Input& input : sessions.lost(desk.state, published)) desk.tell(input);
    EXPECT_EQ(refusal("s2", "dir2@host2"), "") << "lost";
}

TEST_F(Rivals, ARestartedWorkerAndOneInPlaceOfASilentIdleOneAreTaken) {
    EXPECT_EQ(refusal("s2", "dir1@host1"), "");
    EXPECT_EQ(refusal("s2", ""), "") << "a worker of an older release";
    now += 2400ms;
    EXPECT_NE(refusal("s2", "dir2@host1"), "");
    now += 200ms;
    EXPECT_EQ(refusal("s2", "dir2@host1"), "");
    hear(worker("s2", "dir2@host1"));
    EXPECT_EQ(desk.state.workers.begin()->second.session, "s2");
    EXPECT_NE(refusal("s1", "dir1@host1"), "") << "the earlier one comes back";
}

}  // namespace
}  // namespace roll::gateway
