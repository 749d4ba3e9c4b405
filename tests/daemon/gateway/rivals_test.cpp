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
    // Returns why rolld does not take a worker; empty if it does.
    std::string refusal(const char* session, const char* home) {
        const auto refused =
            refusal_of(desk.state, sessions, worker(session, home), published, now);
        keeps_asking = refused && refused->keep_asking;
        return refused ? refused->why : "";
    }
    // Starts rolld anew: it knows its ledger, and has heard no worker.
    void restart() {
        desk.tell(core::Started{});
        sessions = Sessions{LeaseRules{}};
        lose();
    }
    // Tells the core which workers are lost.
    void lose() {
        for (const core::Input& input : sessions.lost(desk.state, published)) desk.tell(input);
    }

    core::Desk desk;
    Sessions sessions{LeaseRules{}};
    std::uint64_t sequence = 0;
    std::uint64_t published = 0;
    Instant now{1h};
    bool keeps_asking = false;
};

TEST_F(Rivals, ASecondWorkerIsRefusedWhileTheFirstMayRunItsAttempts) {
    EXPECT_EQ(refusal("s2", "dir2@host2"),
              "node a already runs a roll-worker (host host1, process 7); start this roll-worker "
              "with another --node, or end the other roll-worker");
    EXPECT_FALSE(keeps_asking);
    EXPECT_NE(refusal("s2", "dir1@host2"), "") << "the same directory on another host";
    EXPECT_EQ(refusal("s1", "dir1@host1"), "") << "the first one itself";
    desk.submit(core::wants(1, 1));
    now += 1h;
    EXPECT_EQ(refusal("s2", "dir2@host2"),
              "node a belongs to a silent roll-worker (host host1, process 7) until rolld counts "
              "that roll-worker as lost; to start at once, use another --node");
    EXPECT_TRUE(keeps_asking);
    published = 35;
    lose();
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

TEST_F(Rivals, AWorkerKeepsItsNodeOverARestartOfRolldForItsLease) {
    restart();
    EXPECT_NE(refusal("s2", "dir2@host2").find("(no heartbeat since the start of rolld)"),
              std::string::npos);
    EXPECT_TRUE(keeps_asking);
    EXPECT_EQ(refusal("s2", "dir1@host1"), "") << "restarted together with rolld";
    EXPECT_EQ(refusal("s1", "dir1@host1"), "") << "the one that ran before";
    published = 14;
    EXPECT_NE(refusal("s2", "dir2@host2"), "");
    published = 15;
    EXPECT_EQ(refusal("s2", "dir2@host2"), "") << "it had no attempt";
    hear(worker("s1", "dir1@host1"));
    EXPECT_NE(refusal("s2", "dir2@host2"), "") << "it came back";
}

TEST_F(Rivals, AfterARestartAWorkerWithAttemptsKeepsItsNodeUntilItIsLost) {
    desk.submit(core::wants(1, 1));
    restart();
    published = 34;
    lose();
    EXPECT_NE(refusal("s2", "dir2@host2"), "");
    published = 35;
    lose();
    EXPECT_EQ(refusal("s2", "dir2@host2"), "");
}

TEST_F(Rivals, AWorkerThatWaitsForItsNodeIsCompany) {
    now += 1h;
    EXPECT_FALSE(sessions.has_company(now));
    protocol::Heartbeat waits = worker("s2", "dir2@host2");
    sessions.hear_refused(waits, now);
    EXPECT_FALSE(sessions.has_company(now)) << "it does not hear rolld";
    waits.heard_recently = true;
    sessions.hear_refused(waits, now);
    EXPECT_TRUE(sessions.has_company(now + 2s));
    EXPECT_FALSE(sessions.has_company(now + 3s));
}

}  // namespace
}  // namespace roll::gateway
