// The lease rules that rolld follows (docs/leases.md, rules 4 to 7). Beats are made by hand.
#include "daemon/gateway/sessions.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/core/desk.hpp"

namespace roll::gateway {
namespace {

using namespace std::chrono_literals;
using core::Desk;

// A core and Sessions, with one worker named "a".
class Room {
  public:
    Room() { speak(); }

    // Sends the worker's next heartbeat, and passes the resulting inputs to the core.
    std::vector<core::Input> speak(bool below_lease = true) {
        protocol::Heartbeat heartbeat;
        heartbeat.session = "s1";
        heartbeat.node = "a";
        heartbeat.slots = 2;
        heartbeat.sequence = ++sequence;
        heartbeat.bound_below_lease = below_lease;
        heartbeat.heard_recently = heard;
        heartbeat.draining = draining;
        heartbeat.running = running;
        return hear(heartbeat);
    }
    std::vector<core::Input> hear(const protocol::Heartbeat& heartbeat) {
        auto inputs = sessions.hear(desk.state, {"route", "key"}, heartbeat, published, now);
        for (const core::Input& input : inputs) desk.tell(input);
        return inputs;
    }
    bool lost() {
        const auto gone = sessions.lost(desk.state, published);
        return !gone.empty();
    }
    const Session& session() const { return sessions.all().at("s1"); }
    WorkerId worker() const { return desk.state.workers.begin()->first; }
    AttemptKey place() {
        job = desk.submit(core::wants(1, 1));
        return desk.attempt(job);
    }
    void report(const AttemptKey& key, protocol::Phase phase, Outcome outcome = Outcome::Done) {
        protocol::RunningAttempt entry;
        entry.attempt = key;
        entry.phase = phase;
        entry.outcome = outcome;
        running = {entry};
    }

    Desk desk;
    Sessions sessions{LeaseRules{}};
    std::vector<protocol::RunningAttempt> running;
    std::uint64_t sequence = 0;
    std::uint64_t published = 0;
    bool heard = true;
    bool draining = false;
    Instant now{1h};
    JobId job;
};

template <class T>
bool has(const std::vector<core::Input>& inputs) {
    return std::ranges::any_of(inputs,
                               [](const auto& input) { return std::holds_alternative<T>(input); });
}

TEST(Sessions, AnUnknownSessionSaysHelloAndAKnownOneDoesNot) {
    Room room;
    ASSERT_EQ(room.desk.state.workers.size(), 1u);
    EXPECT_FALSE(has<core::WorkerHello>(room.speak()));
}

TEST(Sessions, AWorkerThatIsAboutToEndGetsNothingNew) {
    Room room;
    room.draining = true;
    EXPECT_TRUE(has<core::Drain>(room.speak()));
    EXPECT_FALSE(has<core::Drain>(room.speak())) << "once is enough";
    const JobId job = room.desk.submit(core::wants(1, 1));
    EXPECT_FALSE(room.desk.state.jobs.at(job).attempt);
}

TEST(Sessions, AWorkerIsLostAtThirtyFiveBeatsOfSilenceAndNotBefore) {
    Room room;
    room.published = 34;
    EXPECT_FALSE(room.lost());
    room.published = 35;
    EXPECT_TRUE(room.lost());
}

TEST(Sessions, IsLostThirtyFiveBeatsAfterItWasLastHeardThoughJudgedAtEachBeat) {
    Room room;
    while (room.published < 100 && !room.lost()) {
        ++room.published;
        if (room.published == 5 || room.published == 20) room.speak();
    }
    EXPECT_EQ(room.published, 55u);
}

TEST(Sessions, NothingIsPlacedOnAWorkerOfWhichTwoHeartbeatsAreMissing) {
    Room room;
    const auto listen = [&](std::chrono::milliseconds later) {
        room.now += later;
        for (const core::Input& input : room.sessions.quiet(room.desk.state, room.now))
            room.desk.tell(input);
        return room.desk.state.workers.at(room.worker()).quiet;
    };
    room.speak();
    EXPECT_FALSE(listen(2s));
    EXPECT_TRUE(listen(1s));
    const JobId job = room.desk.submit(core::wants(1, 1));
    EXPECT_FALSE(room.desk.state.jobs.at(job).attempt);
    room.speak();
    EXPECT_TRUE(room.desk.state.jobs.at(job).attempt) << "as soon as it is heard again";
    EXPECT_FALSE(listen(1s));
}

TEST(Sessions, AWorkerThatBeatsSlowlyIsNotQuietBetweenTwoBeats) {
    Room room;
    protocol::Heartbeat slow;
    slow.session = "s1";
    slow.node = "a";
    slow.slots = 2;
    slow.sequence = ++room.sequence;
    slow.beat_ms = 5000;
    room.hear(slow);
    room.now += 11s;
    EXPECT_TRUE(room.sessions.quiet(room.desk.state, room.now).empty());
    room.now += 2s;
    EXPECT_FALSE(room.sessions.quiet(room.desk.state, room.now).empty());
}

TEST(Sessions, AfterAStartNothingIsPlacedBeforeAWorkerIsHeard) {
    Room room;
    room.desk.tell(core::Started{});
    const JobId job = room.desk.submit(core::wants(1, 1));
    EXPECT_FALSE(room.desk.state.jobs.at(job).attempt);
    room.speak();
    EXPECT_TRUE(room.desk.state.jobs.at(job).attempt);
}

TEST(Sessions, ATakeOverWaitsForAsLongAsTheOlderRolldMayGoOn) {
    EXPECT_EQ(beats_to_adopt({}), 35u);
    EXPECT_EQ(beats_to_adopt({.volume_patience = 60s}), 95u);
    EXPECT_EQ(beats_to_adopt({.volume_patience = 1500ms}), 37u);
}

TEST(Sessions, AfterATakeOverNothingIsStartedBeforeItIsAdopted) {
    Room room;
    const AttemptKey owed = room.place();
    room.desk.tell(core::Started{7, true});
    EXPECT_EQ(room.desk.state.incarnation, 7u);
    room.speak();
    const JobId job = room.desk.submit(core::wants(1, 1));
    EXPECT_FALSE(room.desk.state.jobs.at(job).attempt);
    const core::Action keep = core::KeepMember{room.worker(), owed};
    EXPECT_EQ(core::actions(room.desk.state), std::vector{keep}) << "no start is sent again";
    room.desk.tell(core::Adopted{});
    EXPECT_TRUE(room.desk.state.jobs.at(job).attempt);
    const core::Action start = core::StartMember{room.worker(), owed};
    EXPECT_EQ(core::actions(room.desk.state).front(), start);
}

TEST(Sessions, NoTimeCountsAsSilenceWhileNoBeatIsPublished) {
    Room room;
    room.now += 24h;
    EXPECT_FALSE(room.lost());
}

TEST(Sessions, ARenewingHeartbeatStartsTheCountAnew) {
    Room room;
    room.place();
    room.published = 30;
    room.speak();
    EXPECT_EQ(room.session().renewed_at, 30u);
    EXPECT_EQ(room.session().counted, 0);
    room.published = 64;
    EXPECT_FALSE(room.lost());
    room.published = 65;
    EXPECT_TRUE(room.lost());
}

TEST(Sessions, AHeartbeatFromADeafWorkerWithAnAttemptRenewsNothingButIsAnswered) {
    Room room;
    room.place();
    room.published = 20;
    room.sessions.take_owing();
    room.speak(false);
    EXPECT_EQ(room.session().renewed_at, 0u) << "the answer names the counter of the renewal";
    EXPECT_EQ(room.session().counted, 20);
    EXPECT_FALSE(room.sessions.take_owing().empty());
    room.published = 35;
    EXPECT_TRUE(room.lost());
}

TEST(Sessions, AHeartbeatThatSaysTheSameAgainIsNotParsed) {
    Room room;
    protocol::Heartbeat heartbeat = room.session().last;
    const auto say = [&] {
        ++heartbeat.sequence;
        const std::string frame = protocol::encode(heartbeat);
        const bool again =
            room.sessions
                .hear_again(room.desk.state, {"route", "key"}, frame, room.published, room.now)
                .has_value();
        if (!again)
            room.sessions.hear(room.desk.state, {"route", "key"}, heartbeat, room.published,
                               room.now, frame);
        EXPECT_EQ(room.session().last.sequence, heartbeat.sequence);
        EXPECT_EQ(room.session().last.draining, heartbeat.draining);
        return again;
    };
    EXPECT_FALSE(say()) << "the text of the one before is not known";
    EXPECT_TRUE(say());
    EXPECT_TRUE(say());
    heartbeat.draining = true;
    EXPECT_FALSE(say());
    EXPECT_TRUE(say());
    heartbeat.session = "s2";
    EXPECT_FALSE(room.sessions.hear_again(room.desk.state, {"route", "key"},
                                          protocol::encode(heartbeat), room.published, room.now));
}

TEST(Sessions, ADeafWorkerWithoutAnAttemptRenews) {
    Room room;
    room.published = 20;
    room.speak(false);
    EXPECT_EQ(room.session().renewed_at, 20u);
}

TEST(Sessions, ALateHeartbeatOfAnOlderConnectionRenewsNothing) {
    Room room;
    room.place();
    protocol::Heartbeat late = room.session().last;
    room.speak();
    room.published = 10;
    room.sessions.hear(room.desk.state, {"another", "key"}, late, room.published, room.now);
    EXPECT_EQ(room.session().renewed_at, 0u);
    EXPECT_EQ(room.session().peer.route, "route");
}

TEST(Sessions, AfterAStartSilenceCountsFromZero) {
    Room room;
    room.published = 34;
    Sessions restarted{LeaseRules{}};
    EXPECT_TRUE(restarted.lost(room.desk.state, 0).empty());
    EXPECT_TRUE(restarted.lost(room.desk.state, 34).empty());
    EXPECT_FALSE(restarted.lost(room.desk.state, 35).empty());
}

TEST(Sessions, AfterAStartADeafWorkerIsCountedFromTheFirstBeatNotFromItsFirstWord) {
    Room room;
    room.place();
    Sessions restarted{LeaseRules{}};
    EXPECT_TRUE(restarted.lost(room.desk.state, 0).empty());
    protocol::Heartbeat deaf = room.session().last;
    deaf.bound_below_lease = false;
    restarted.hear(room.desk.state, {"route", "key"}, deaf, 30, room.now);
    EXPECT_FALSE(restarted.lost(room.desk.state, 35).empty());
}

TEST(Sessions, ThereIsCompanyOnlyWhileSomeWorkerSaysThatItHears) {
    Room room;
    EXPECT_TRUE(room.sessions.has_company(room.now));
    EXPECT_FALSE(room.sessions.has_company(room.now + 2001ms));
    room.now += 3s;
    room.heard = false;
    room.speak();
    EXPECT_FALSE(room.sessions.has_company(room.now));
}

TEST(Sessions, AnAttemptWhoseOrderIsOnItsWayIsNotMissing) {
    Room room;
    room.place();
    room.now += 1h;
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
    room.now += 1h;
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
}

TEST(Sessions, AnAttemptThatWasUpAndIsNotMentionedIsMissing) {
    Room room;
    const AttemptKey key = room.place();
    room.report(key, protocol::Phase::Running);
    room.speak();
    room.running.clear();
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
    room.now += 4s;
    EXPECT_TRUE(has<core::MemberUnknown>(room.speak()));
    EXPECT_EQ(room.desk.job(room.job).past.size(), 1u);
}

// Heartbeats were delayed while rolld was down: the worker sent them before the attempt began, and
// rolld receives them afterwards.
TEST(Sessions, WhatAnEarlierRolldHeardIsNotMissingForOlderWordsThatComeLate) {
    Room room;
    protocol::Heartbeat before = room.session().last;
    const AttemptKey key = room.place();
    room.report(key, protocol::Phase::Running);
    room.sequence = 20;
    room.speak();
    core::apply(room.desk.state, core::IncarnationRaised{room.desk.state.incarnation + 1});
    room.sessions = Sessions{LeaseRules{}};
    for (before.sequence = 10; before.sequence < 20; ++before.sequence) {
        EXPECT_FALSE(has<core::MemberUnknown>(room.hear(before)));
        room.now += 1s;
    }
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
    room.running.clear();
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
    room.now += 17s;
    EXPECT_TRUE(has<core::MemberUnknown>(room.speak())) << "it is gone";
}

TEST(Sessions, ACancelledAttemptIsGivenUpOnlyOnceItsStartOrderIsTooOldToBeObeyed) {
    Room room;
    const AttemptKey key = room.place();
    room.sessions.all().at("s1").ordered[key] = room.now;
    room.desk.tell(core::Cancel{room.job, "enough"});
    room.speak();
    room.now += 15s;
    EXPECT_FALSE(has<core::MemberUnknown>(room.speak()));
    room.now += 2s;
    EXPECT_TRUE(has<core::MemberUnknown>(room.speak()));
    EXPECT_EQ(room.desk.job(room.job).phase, core::JobPhase::Cancelled);
}

TEST(Sessions, ACancelledAttemptThatNobodyWasToldToStartIsGivenUpSoon) {
    Room room;
    room.place();
    room.desk.tell(core::Cancel{room.job, "enough"});
    room.speak();
    room.now += 4s;
    EXPECT_TRUE(has<core::MemberUnknown>(room.speak()));
}

TEST(Sessions, CheckpointsAndExportsAreClaimedBeforeTheEndThatMakesThemStale) {
    Room room;
    const AttemptKey key = room.place();
    room.report(key, protocol::Phase::Ended, Outcome::Done);
    room.running[0].checkpoints = {{.step = 5, .directory = "/c/5"}};
    room.running[0].exported = "/export";
    room.running[0].exports.push_back({20, "/export/hf-step-00000020", 20});
    room.speak();
    const core::Job& job = room.desk.job(room.job);
    EXPECT_EQ(job.phase, core::JobPhase::Done);
    ASSERT_EQ(job.checkpoints.size(), 1u);
    EXPECT_EQ(job.checkpoints[0].directory, "/c/5");
    EXPECT_EQ(job.exported, "/export");
    ASSERT_EQ(job.exports.size(), 1u);
    EXPECT_EQ(job.exports[0].step, 20);
}

TEST(Sessions, TheReasonOfAnEndIsOneLineWithoutControlCharacters) {
    Room room;
    room.report(room.place(), protocol::Phase::Ended, Outcome::Invalid);
    room.running[0].reason = "cannot run \x1b[2Jx\njob 9 done";
    room.speak();
    EXPECT_EQ(room.desk.job(room.job).reason, "cannot run  [2Jx job 9 done");
}

TEST(Sessions, AStaleAttemptIsRecordedOnceHoweverOftenItIsSaid) {
    Room room;
    AttemptKey stale = room.place();
    ++stale.token.attempt;
    room.report(stale, protocol::Phase::Running);
    EXPECT_TRUE(has<core::StaleClaim>(room.speak()));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(has<core::StaleClaim>(room.speak()));
    room.report(stale, protocol::Phase::Ended, Outcome::Done);
    EXPECT_FALSE(has<core::StaleClaim>(room.speak()));
    const core::Events events =
        room.desk.tell(core::StaleClaim{room.worker(), {JobId{99}, {7, 1}}});
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(std::get<core::AttemptFenced>(events[0]).node, "a") << "of a job that is forgotten";
    room.report(room.desk.attempt(room.job), protocol::Phase::Running);
    EXPECT_FALSE(has<core::StaleClaim>(room.speak()));
}

// The key of a pilot names the order. A key of another ledger names none of our orders.
TEST(Pilot, IsKnownByTheNameOfItsOrder) {
    Desk desk;
    Sessions sessions(LeaseRules{}, "c1");
    const auto claim = [&](const std::string& key) {
        protocol::Heartbeat heartbeat;
        heartbeat.session = "s-" + key;
        heartbeat.node = "n1.a12";
        heartbeat.sequence = 1;
        heartbeat.pilot = protocol::PilotNote{key, "4711", 1000};
        const auto inputs = sessions.hear(desk.state, {"route", "key"}, heartbeat, 1, {});
        return std::get<core::WorkerHello>(inputs.at(0)).pilot.value();
    };
    const core::Pilot ours = claim("c1.3.12");
    EXPECT_EQ(ours.allocation, AllocationId{12});
    EXPECT_EQ(ours.incarnation, 3U);
    EXPECT_EQ(ours.slurm_job, "4711");
    EXPECT_EQ(ours.ends_at, Time{1000s});
    for (const char* key : {"c2.3.12", "c1", "c1.3", "c1.3.x", "c1.3.12.1", ""})
        EXPECT_EQ(claim(key).allocation, AllocationId{0}) << key;
}

// Slurm is asked only about the nodes of silent workers (docs/slurm.md).
TEST(Sessions, SilenceIsCountedInBeatsAndEndsWithAWord) {
    Room room;
    const auto silent = [&] {
        for (const core::Input& input : room.sessions.quiet(room.desk.state, room.now))
            room.desk.tell(input);
        return room.sessions.silent(room.desk.state, room.published).size();
    };
    room.now += 60s;
    EXPECT_EQ(silent(), 0U) << "no time counts, only beats";
    room.published = 2;
    EXPECT_EQ(silent(), 0U);
    room.published = 3;
    EXPECT_EQ(silent(), 1U);
    room.speak();
    EXPECT_EQ(silent(), 0U);
}

TEST(Sessions, ADeafWorkerIsNotSilent) {
    Room room;
    room.place();
    room.published = 20;
    room.now += 20s;
    room.speak(false);
    for (const core::Input& input : room.sessions.quiet(room.desk.state, room.now + 20s))
        room.desk.tell(input);
    EXPECT_TRUE(room.sessions.silent(room.desk.state, room.published).empty());
    room.published = 23;
    EXPECT_EQ(room.sessions.silent(room.desk.state, room.published).size(), 1U);
}

TEST(Sessions, AfterAStartAWorkerIsSilentOnlyAfterALease) {
    Room room;
    room.desk.tell(core::Started{});
    room.sessions = Sessions(LeaseRules{});
    room.lost();
    room.published = 14;
    EXPECT_TRUE(room.sessions.silent(room.desk.state, room.published).empty());
    room.published = 15;
    EXPECT_EQ(room.sessions.silent(room.desk.state, room.published).size(), 1U);
}

}  // namespace
}  // namespace roll::gateway
