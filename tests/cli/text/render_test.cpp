#include "cli/text/render.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

#include "cli/show/job_view.hpp"

namespace roll::cli {
namespace {

const Time kNow = *parse_time("2026-11-21T10:00:00.000Z");

Json jobs() {
    return Json::parse(R"([
        {"id": 7, "name": "kjv", "kind": "train", "state": "running", "nodes": ["n1"],
         "submitted_at": "2026-11-21T09:50:00.000Z", "started_at": "2026-11-21T09:58:55.000Z",
         "progress": {"step": 120, "steps": 300, "loss": 2.31, "tokens_per_second": 41200.4,
                      "eta_s": 65.2, "phase": "train"}},
        {"id": 8, "name": "eval", "kind": "command", "state": "queued", "waiting": "after job 7",
         "submitted_at": "2026-11-21T09:59:30.000Z", "nodes": [], "progress": null},
        {"id": 9, "name": "bad", "kind": "command", "state": "failed", "reason": "exit 3",
         "exit_code": 3, "submitted_at": "2026-11-20T09:00:00.000Z", "nodes": ["n1", "n2"],
         "started_at": "2026-11-20T10:00:00.000Z", "ended_at": "2026-11-20T12:10:00.000Z"}])");
}

TEST(JobsTable, ShowsWhatMattersInEachState) {
    EXPECT_EQ(jobs_text(jobs(), {}, {kNow}),
              "ID  NAME  KIND     STATE      TIME  NODES  INFO\n"
              " 7  kjv   train    running  1m 05s  n1     step 120/300  loss 2.3100  41.2k "
              "tokens/s  1m 05s left\n"
              " 8  eval  command  queued      30s         after job 7\n"
              " 9  bad   command  failed   2h 10m  n1,n2  exit 3\n");
}

TEST(JobsTable, ReasonsOfOtherUsersHaveNoControlCharactersAlsoInAPipe) {
    const Json evil = {{{"id", 9},
                        {"name", "bad"},
                        {"kind", "command"},
                        {"state", "failed"},
                        {"reason", "\x1b[2Jno\n 10  fake  command  done"}}};
    EXPECT_EQ(jobs_text(evil, {}, {kNow}),
              "ID  NAME  KIND     STATE   INFO\n"
              " 9  bad   command  failed  no  10  fake  command  done\n");
}

TEST(JobsTable, FitsTheTerminalByARule) {
    const auto wide = [](std::size_t width) {
        return jobs_text(jobs(), {}, {kNow, false, false, width});
    };
    EXPECT_EQ(wide(200), jobs_text(jobs(), {}, {kNow})) << "nothing is cut if there is room";
    EXPECT_EQ(wide(80),
              "ID  NAME  KIND     STATE      TIME  NODES  INFO\n"
              " 7  kjv   train    running  1m 05s  n1     step 120/300  loss 2.3100  41.2k tok+\n"
              " 8  eval  command  queued      30s         after job 7\n"
              " 9  bad   command  failed   2h 10m  n1,n2  exit 3\n");
    EXPECT_EQ(wide(60),
              "ID  NAME  STATE      TIME  NODES  INFO\n"
              " 7  kjv   running  1m 05s  n1     step 120/300  loss 2.3100+\n"
              " 8  eval  queued      30s         after job 7\n"
              " 9  bad   failed   2h 10m  n1,n2  exit 3\n");
    EXPECT_EQ(wide(50),
              "ID  NAME  STATE    INFO\n"
              " 7  kjv   running  step 120/300  loss 2.3100  41.+\n"
              " 8  eval  queued   after job 7\n"
              " 9  bad   failed   exit 3\n");
    EXPECT_EQ(wide(12), "ID  NAME  S+\n 7  kjv   r+\n 8  eval  q+\n 9  bad   f+\n");
}

TEST(JobsTable, AnArrayIsOneRow) {
    Json array = jobs()[0];
    array["id"] = 17;
    array["progress"] = nullptr;
    array["fold"] = Json::parse(R"({"first": 17, "last": 116, "tasks": 100, "indices": "1-100",
        "states": {"done": 72, "queued": 20, "running": 8}})");
    EXPECT_EQ(jobs_text(Json({array}), {}, {kNow}),
              "       ID  NAME  KIND   STATE      TIME  NODES  INFO\n"
              "17[1-100]  kjv   train  running  1m 05s  n1     72 done, 8 running, 20 waiting\n");
}

TEST(JobsTable, TimesAreLocalOnATerminalAlone) {
    ::setenv("TZ", "Asia/Tokyo", 1);
    ::tzset();
    const Format format = *parse_format("id,submitted_at", job_fields(), "");
    EXPECT_NE(jobs_text(jobs(), format, {kNow, false, true}).find("2026-11-21 18:50:00\n"),
              std::string::npos);
    EXPECT_NE(jobs_text(jobs(), format, {kNow}).find("2026-11-21T09:50:00.000Z\n"),
              std::string::npos);
    ::setenv("TZ", "UTC", 1);
    ::tzset();
}

TEST(JobLine, HasABarWhereThereIsRoomAndFitsItsTerminal) {
    Json job = jobs()[0];
    job["progress"]["tokens"] = 1'234'567;
    const std::string told = "step 120/300  loss 2.3100  41.2k tokens/s  1m 05s left  1.2M tokens";
    EXPECT_EQ(job_line(job, 0, false), "job 7 kjv  running  " + told);
    EXPECT_EQ(job_line(job, 120, false),
              "job 7 kjv  running  [########------------]  40 %  " + told);
    EXPECT_EQ(job_line(job, 110, false), "job 7 kjv  running  [####------]  40 %  " + told);
    EXPECT_EQ(job_line(job, 80, false),
              // One column less, because the last column stays free.
              ("job 7 kjv  running  " + told).substr(0, 79));
    EXPECT_EQ(job_line(job, 10, false), "job 7 kjv  running");
    EXPECT_EQ(job_line(jobs()[1], 120, false), "job 8 eval  queued  after job 7");
    job["state"] = "failed";
    job["reason"] = std::string(200, 'x');
    EXPECT_EQ(job_line(job, 80, false), "job 7 kjv  failed  " + std::string(200, 'x'));
    EXPECT_NE(job_line(jobs()[0], 80, true).find("\x1b[36mrunning\x1b[0m"), std::string::npos);
}

TEST(JobsText, NamesManyInOneLine) {
    EXPECT_EQ(ids_text(Json({1, 2, 3, 5, 9, 10})), "1-3,5,9-10");
    EXPECT_EQ(ids_text(Json::array()), "");
    EXPECT_EQ(jobs_text(Json({4}), "held", false), "job 4 held\n");
    EXPECT_EQ(jobs_text(Json({4, 5}), "held", false), "jobs 4-5 held\n");
    EXPECT_EQ(jobs_text(Json({4, 5}), "held", true), "4\n5\n");
    EXPECT_EQ(jobs_text(Json::array(), "held", false), "");
}

TEST(JobsTable, PaintsStatesOnlyWhenAsked) {
    EXPECT_NE(jobs_text(jobs(), {}, {kNow, true}).find("\x1b[31mfailed\x1b[0m"), std::string::npos);
    EXPECT_EQ(jobs_text(jobs(), {}, {kNow}).find('\x1b'), std::string::npos);
}

TEST(ExitStatus, IsTheJobsOwnCode) {
    EXPECT_EQ(exit_status({{"state", "done"}, {"exit_code", 0}}), 0);
    EXPECT_EQ(exit_status({{"state", "failed"}, {"exit_code", 137}}), 137);
    EXPECT_EQ(exit_status({{"state", "cancelled"}, {"exit_code", 0}}), 1);
    EXPECT_EQ(exit_status({{"state", "failed"}, {"exit_code", nullptr}}), 1);
    const Json trial = {{"state", "cancelled"}, {"exit_code", 130}, {"halved", true}};
    EXPECT_EQ(exit_status(trial), 0) << "halving stopped it on purpose";
}

TEST(JobView, ListsAttemptsAndCheckpoints) {
    Json job = jobs()[0];
    job["output"] = "/runs/kjv-7";
    job["attempts"] = Json::parse(R"([{"token": "1-1", "attempt": 1, "outcome": "infra",
        "started_at": "2026-11-21T09:51:00.000Z", "ended_at": "2026-11-21T09:52:00.000Z",
        "nodes": ["n1"], "exit_code": 137, "reason": "a rank was killed by signal 9"}])");
    job["checkpoints"] = Json::parse(R"([{"step": 100, "token": "1-1", "directory": "/c"}])");
    const std::string text = job_text(job, {kNow});
    EXPECT_NE(text.find("job 7 kjv (train): running"), std::string::npos);
    EXPECT_NE(text.find("  output          /runs/kjv-7\n"), std::string::npos);
    EXPECT_NE(text.find("infra  1m 00s  n1      137  a rank was killed by signal 9\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("  100  1-1    /c\n"), std::string::npos) << text;
}

TEST(JobView, ShowsThePredictedStartOfAWaitingJobAndTheProcessorTimeOfARunningOne) {
    const Json waiting = {
        {"id", 7}, {"state", "queued"}, {"starts_at", "2026-11-21T10:10:00.000Z"}};
    EXPECT_NE(job_text(waiting, {kNow}).find("  starts by       2026-11-21T10:10:00"),
              std::string::npos)
        << job_text(waiting, {kNow});
    const Json running = {{"id", 7}, {"state", "running"}, {"progress", {{"cpu_seconds", 185}}}};
    EXPECT_NE(job_text(running, {kNow}).find("  CPU             3m 05s of processor time"),
              std::string::npos)
        << job_text(running, {kNow});
}

TEST(JobView, ShowsWhyACheckpointIsPostponed) {
    const Json running = {
        {"id", 7},
        {"state", "running"},
        {"progress", {{"step", 5}, {"checkpoint_postponed", "no space for a checkpoint"}}}};
    const std::string text = job_text(running, {kNow});
    EXPECT_NE(text.find(" - step 5  checkpoint postponed\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  postponed       no space for a checkpoint\n"), std::string::npos)
        << text;
}

TEST(Render, WritesDurationsAndAmounts) {
    EXPECT_EQ(duration_text(59), "59s");
    EXPECT_EQ(duration_text(185), "3m 05s");
    EXPECT_EQ(duration_text(90000), "1d 1h");
    EXPECT_EQ(duration_text(-5), "0s");
    EXPECT_EQ(amount_text(950), "950");
    EXPECT_EQ(amount_text(1.25e6), "1.2M");
}

TEST(Plot, HasBothAxesAndFitsItsColumnsAndRows) {
    EXPECT_EQ(plot({{1, 6}, {2, 5}, {3, 4}, {4, 3}, {5, 2}, {6, 1}}, 21, 8),
              "        6 |*\n"
              "          |  *\n"
              "          |    *\n"
              "          |     *\n"
              "          |       *\n"
              "        1 |         *\n"
              "          +----------\n"
              "           1        6\n");
    std::vector<Point> points;
    for (int step = 1; step <= 3000; ++step) points.push_back({double(step), 1000.0 / step});
    for (const std::size_t columns : {40, 79, 159}) {
        const std::string text = plot(points, columns, 18);
        std::size_t longest = 0;
        for (std::size_t from = 0, end = 0; from < text.size(); from = end + 1) {
            end = text.find('\n', from);
            longest = std::max(longest, end - from);
        }
        EXPECT_EQ(longest, columns);
        EXPECT_EQ(std::ranges::count(text, '\n'), 18);
        EXPECT_TRUE(text.ends_with("3000\n")) << text;
    }
    EXPECT_EQ(plot({}, 79, 18), "");
    EXPECT_EQ(plot({{7, 2}}, 21, 6),
              "          |\n"
              "          |\n"
              "          |\n"
              "        2 |*\n"
              "          +----------\n"
              "           7\n");
}

}  // namespace
}  // namespace roll::cli
