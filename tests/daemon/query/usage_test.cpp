#include <gtest/gtest.h>

#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {
namespace {

using namespace std::chrono_literals;

TEST(Usage, ShowsLimitsAndTheQueueOfAUser) {
    core::Desk desk;
    spec::Policy policy;
    policy.accounts["lab"].users = {"ann"};
    policy.accounts["lab"].quota.slots = 4;
    policy.users["*"].quota.jobs = 50;
    desk.tell(core::SetPolicy{policy});
    desk.join("n1", 2);
    spec::JobSpec job = core::wants(1, 2);
    job.account = "lab";
    job.resources.time = 10min;
    for (int i = 0; i < 3; ++i) desk.submit(job);
    job.hold = true;
    desk.submit(job);
    const Json all = usage(desk.state, {.user = "ann"}, desk.now);
    EXPECT_EQ(all["running"], 1);
    EXPECT_EQ(all["queued"], 3);
    ASSERT_EQ(all["usage"].size(), 2u);
    EXPECT_EQ(all["usage"][0]["name"], "ann");
    EXPECT_EQ(all["usage"][0]["limits"]["jobs"], 50);
    EXPECT_EQ(all["usage"][0]["jobs"], 4);
    EXPECT_EQ(all["usage"][1]["name"], "lab");
    EXPECT_EQ(all["usage"][1]["slots"], 2);
    EXPECT_EQ(all["usage"][1]["limits"]["slots"], 4);
    ASSERT_EQ(all["waiting"].size(), 3u);
    EXPECT_EQ(all["waiting"][0]["id"], 2);
    EXPECT_EQ(all["waiting"][0]["position"], 1);
    EXPECT_EQ(all["waiting"][0]["starts_at"], to_iso8601(desk.now + 10min));
    EXPECT_EQ(all["waiting"][1]["position"], 2);
    EXPECT_EQ(all["waiting"][1]["starts_at"], nullptr) << "its account's quota blocks it";
    EXPECT_EQ(all["waiting"][2]["id"], 4) << "a held job has no position";
    EXPECT_EQ(all["waiting"][2]["position"], nullptr);
    EXPECT_EQ(usage(desk.state, {.user = "bob"}, desk.now)["waiting"].size(), 0u);
}

TEST(Usage, EachWaitingJobHasAPredictedStartUntilATimeIsUnknown) {
    core::Desk desk;
    desk.join("n1", 4);
    const auto submit = [&](int slots, std::chrono::minutes time) {
        spec::JobSpec job = core::wants(1, slots);
        job.resources.time = time;
        return desk.submit(job);
    };
    submit(2, 10min);
    submit(2, 30min);
    submit(2, 60min);  // starts after the first job
    submit(4, 5min);   // starts after the second and the third job
    submit(9, 5min);   // no worker can hold it
    submit(1, 0min);   // has no time limit
    submit(4, 5min);   // waits for the job before it
    submit(1, 5min);
    const Json waiting = usage(desk.state, {.user = "ann"}, desk.now)["waiting"];
    Json starts = Json::array();
    for (const Json& job : waiting) starts.push_back(job["starts_at"]);
    const auto after = [&](auto time) { return Json(to_iso8601(desk.now + time)); };
    EXPECT_EQ(starts, (Json{after(10min), after(70min), nullptr, after(75min), nullptr, nullptr}))
        << waiting.dump(1);
    const auto start_in = [](const Json& job) { return job["starts_at"]; };
    const Json listed = *jobs(desk.state, {.fields = {"id", "starts_at"}}, {}, desk.now);
    EXPECT_EQ(start_in(listed["jobs"][0]), nullptr) << "it runs";
    EXPECT_EQ(start_in(listed["jobs"][2]), after(10min));
    EXPECT_EQ(start_in(listed["jobs"][3]), after(70min));
    EXPECT_EQ(start_in((*show(desk.state, {.id = 4}, {}, desk.now))["job"]), after(70min));
}

TEST(Usage, AUserIsKnownByAJobOrByThePolicy) {
    core::Desk desk;
    spec::Policy policy;
    policy.accounts["lab"].users = {"ann"};
    policy.users["*"].share = 2;
    policy.users["eve"].share = 3;
    desk.tell(core::SetPolicy{policy});
    const JobId id = desk.submit(core::wants(1, 2));
    EXPECT_TRUE(knows_user(desk.state, desk.state.jobs.at(id).user));
    EXPECT_TRUE(knows_user(desk.state, "ann"));
    EXPECT_TRUE(knows_user(desk.state, "eve"));
    EXPECT_FALSE(knows_user(desk.state, "nobody"));
}

TEST(Report, AttemptsCountByCauseOfWaste) {
    core::Desk desk;
    desk.now = Time(std::chrono::sys_days(std::chrono::year(2026) / 11 / 22)) + 23h;  // a Sunday
    desk.tell(core::Tick{});
    desk.join("n1", 8, 4);
    const auto run = [&](core::Outcome outcome) {
        spec::JobSpec spec = core::wants(1, 2, 1);
        spec.retry.app = 0;
        const JobId id = desk.submit(spec);
        desk.pass(2h);
        desk.exit(id, outcome, outcome == core::Outcome::Done ? 0 : 1);
        return id;
    };
    run(core::Outcome::Done);
    run(core::Outcome::App);
    const JobId retried = run(core::Outcome::Infra);
    const Json rows = report(desk.state, {}, desk.now).value()["rows"];
    ASSERT_EQ(rows.size(), 1u);
    constexpr std::int64_t kHour = 3'600'000;
    EXPECT_EQ(rows[0]["user"], "ann");
    EXPECT_EQ(rows[0]["jobs"], 3);
    EXPECT_EQ(rows[0]["held"], Json({{"slot_ms", 12 * kHour}, {"gpu_ms", 6 * kHour}}));
    EXPECT_EQ(rows[0]["failed"]["gpu_ms"], 2 * kHour);
    EXPECT_EQ(rows[0]["requeued"]["gpu_ms"], 2 * kHour);
    EXPECT_EQ(rows[0]["cancelled"]["gpu_ms"], 0);
    EXPECT_FALSE(core::is_over(desk.job(retried).phase));

    const Json weeks = report(desk.state, {.by = "week"}, desk.now).value()["rows"];
    ASSERT_EQ(weeks.size(), 2u);
    EXPECT_EQ(weeks[0]["week"], "2026-11-16");
    EXPECT_EQ(weeks[0]["held"]["gpu_ms"], kHour);
    EXPECT_EQ(weeks[1]["week"], "2026-11-23");
    EXPECT_EQ(weeks[1]["held"]["gpu_ms"], 5 * kHour);

    const auto since = (desk.now - 3h).time_since_epoch().count();
    const Json late = report(desk.state, {.since = since}, desk.now).value()["rows"];
    EXPECT_EQ(late[0]["held"]["gpu_ms"], 3 * kHour);
    EXPECT_EQ(late[0]["jobs"], 2);
    const Json early = report(desk.state, {.until = since}, desk.now).value()["rows"];
    EXPECT_EQ(early[0]["held"]["gpu_ms"], 3 * kHour);
    EXPECT_EQ(early[0]["jobs"], 2);

    const Json both = report(desk.state, {.by = "kind,week"}, desk.now).value()["rows"];
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[1]["kind"], "command");
    EXPECT_EQ(both[1]["week"], "2026-11-23");
    EXPECT_EQ(both[1]["held"]["gpu_ms"], 5 * kHour);
    for (const char* wrong : {"colour", "user,user", "user,,kind"})
        EXPECT_EQ(report(desk.state, {.by = wrong}, desk.now).error().message,
                  std::string("there is no report by ") + wrong +
                      "; allowed: user, account, kind, week, separated by commas, each at most "
                      "once");
}

TEST(Report, AttemptsOfTrialsThatHalvingStoppedAreNoWaste) {
    core::Desk desk;
    desk.join("n1", 8, 4);
    const auto cancelled_ms = [&](bool halved) {
        const JobId id = desk.submit(core::wants(1, 2, 1));
        desk.pass(2h);
        desk.tell(core::Cancel{.job = id, .reason = "enough", .halved = halved});
        desk.exit(id, core::Outcome::Stopped, 143);
        EXPECT_EQ(desk.job(id).phase, core::JobPhase::Cancelled);
        return report(desk.state, {}, desk.now).value()["rows"][0]["cancelled"]["gpu_ms"];
    };
    EXPECT_EQ(cancelled_ms(true), 0);
    EXPECT_EQ(cancelled_ms(false), 2 * 3'600'000);
}

TEST(Report, TrainingAfterTheLastCheckpointOfAFailedAttemptDoesNotCount) {
    core::Desk desk;
    desk.join("n1", 8, 4);
    spec::JobSpec spec = core::wants(1, 2, 1);
    spec.kind = spec::JobKind::Train;
    const JobId id = desk.submit(spec);
    const auto start = [&] {
        desk.tell(core::MemberStarted{desk.worker_of(id), desk.attempt(id)});
    };
    desk.pass(1h);
    start();
    desk.pass(2h);
    desk.tell(core::CheckpointWritten{desk.worker_of(id), desk.attempt(id), 10, "/c"});
    desk.pass(1h);
    desk.exit(id, core::Outcome::Infra, 1);
    desk.pass(1h);
    ASSERT_TRUE(core::is_running(desk, id));
    start();
    desk.pass(3h);
    constexpr std::int64_t kHour = 3'600'000;
    const auto row = [&] { return report(desk.state, {}, desk.now).value()["rows"][0]; };
    const Json elapsed{{"slot_ms", 16 * kHour}, {"gpu_ms", 8 * kHour}};
    const Json trained{{"slot_ms", 10 * kHour}, {"gpu_ms", 5 * kHour}};
    EXPECT_EQ(row()["elapsed"], elapsed);
    EXPECT_EQ(row()["trained"], trained);
    EXPECT_EQ(totals(desk.state, desk.now)["ettr"], 5.0 / 8);
    desk.exit(id, core::Outcome::Done);
    desk.pass(9h);
    EXPECT_EQ(row()["elapsed"], elapsed);
    EXPECT_EQ(row()["trained"], trained);
    EXPECT_EQ(row()["held"]["gpu_ms"], 7 * kHour);
    EXPECT_EQ(row()["requeued"]["gpu_ms"], 4 * kHour);
    EXPECT_EQ(ettr(desk.job(id), desk.now), 5.0 / 8);
    EXPECT_EQ(totals(desk.state, desk.now)["ettr"], nullptr) << "the job has ended";
    EXPECT_EQ(ettr(desk.job(desk.submit(core::wants(1, 1))), desk.now), nullptr) << "no training";
}

}  // namespace
}  // namespace roll::query
