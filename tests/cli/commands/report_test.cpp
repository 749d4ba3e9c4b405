#include <gtest/gtest.h>

#include "cli/commands/usage.hpp"
#include "cli/text/since.hpp"

namespace roll::cli {
namespace {

TEST(Report, AddsThePagesOfDifferentJobs) {
    const Json page = Json::parse(R"({"rows": [
        {"user": "ann", "jobs": 2, "held": {"gpu_ms": 7200000, "slot_ms": 3600000},
         "failed": {"gpu_ms": 1800000, "slot_ms": 900000}, "requeued": {"gpu_ms": 0, "slot_ms": 0},
         "cancelled": {"gpu_ms": 0, "slot_ms": 0}}]})");
    Json second = page;
    second["rows"][0]["user"] = "bob";
    const Json report = report_of({page, second, page}, {"user"});
    EXPECT_EQ(report["rows"][0]["user"], "ann");
    EXPECT_EQ(report["rows"][0]["jobs"], 4);
    EXPECT_EQ(report["rows"][0]["gpu_hours"], 4.0);
    EXPECT_EQ(report["rows"][0]["wasted"]["failed"]["slot_hours"], 0.5);
    EXPECT_EQ(report["total"]["gpu_hours"], 6.0);
    EXPECT_EQ(report_text(report, 0),
              "USER   JOBS  GPU-HOURS  SLOT-HOURS  FAILED  REQUEUED  CANCELLED\n"
              "ann       4       4.00        2.00    1.00      0.00       0.00\n"
              "bob       2       2.00        1.00    0.50      0.00       0.00\n"
              "total     6       6.00        3.00    1.50      0.00       0.00\n"
              "the columns FAILED, REQUEUED and CANCELLED are wasted GPU-hours\n");
}

TEST(Report, TheRatioOfTrainingTimeIsShownIfTrainingJobsRan) {
    const Json page = Json::parse(R"({"rows": [
        {"user": "ann", "jobs": 1, "held": {"gpu_ms": 7200000, "slot_ms": 0},
         "elapsed": {"gpu_ms": 7200000, "slot_ms": 0},
         "trained": {"gpu_ms": 5400000, "slot_ms": 0}},
        {"user": "bob", "jobs": 1, "held": {"gpu_ms": 3600000, "slot_ms": 0}}]})");
    const Json report = report_of({page}, {"user"});
    EXPECT_EQ(report["rows"][0]["ettr"], 0.75);
    EXPECT_EQ(report["rows"][1]["ettr"], nullptr);
    EXPECT_EQ(report["total"]["ettr"], 0.75);
    EXPECT_EQ(report_text(report, 0).find("USER   JOBS  GPU-HOURS  SLOT-HOURS  FAILED  REQUEUED  "
                                          "CANCELLED    ETTR\n"
                                          "ann       1       2.00        0.00    0.00      0.00  "
                                          "     0.00  0.7500\n"),
              0u)
        << report_text(report, 0);
}

TEST(Report, RowsMayHaveSeveralKeys) {
    const Json page = Json::parse(R"({"rows": [
        {"user": "ann", "week": "2026-11-16", "jobs": 1, "held": {"gpu_ms": 3600000}},
        {"user": "ann", "week": "2026-11-23", "jobs": 1, "held": {"gpu_ms": 7200000}},
        {"user": "", "week": "2026-11-16", "jobs": 1, "held": {"gpu_ms": 3600000}}]})");
    const Json report = report_of({page, page}, {"user", "week"});
    EXPECT_EQ(report["by"], "user,week");
    EXPECT_EQ(report["rows"].size(), 3u);
    EXPECT_EQ(report["rows"][2]["week"], "2026-11-23");
    EXPECT_EQ(report["rows"][2]["gpu_hours"], 4.0);
    EXPECT_EQ(report_text(report, 0).find(
                  "USER    WEEK        JOBS  GPU-HOURS  SLOT-HOURS  FAILED  REQUEUED  CANCELLED\n"
                  "(none)  2026-11-16     2       2.00        0.00    0.00      0.00       0.00\n"),
              0u)
        << report_text(report, 0);
}

TEST(Report, CsvQuotesWhatNeedsIt) {
    EXPECT_EQ(csv_text({{"a", "b,c", "d\"e", "f\ng"}, {"", "1"}}),
              "a,\"b,c\",\"d\"\"e\",\"f\ng\"\n,1\n");
}

TEST(Since, IsADurationOrATime) {
    const Time now{std::chrono::hours(1'000'000)};
    EXPECT_EQ(parse_since("2h", now), now - std::chrono::hours(2));
    EXPECT_EQ(parse_since("1-12:00:00", now), now - std::chrono::hours(36));
    EXPECT_EQ(to_iso8601(parse_since("2026-11-22T08:00:00Z", now).value()),
              "2026-11-22T08:00:00.000Z");
    EXPECT_EQ(parse_since("x", now, "--until").error().message.find("--until is x; "), 0u);
    EXPECT_EQ(parse_since("yesterday", now).error().message,
              "--since is yesterday; allowed: a duration such as 90s, 2h or 1-12:00:00, or a time "
              "such as 2026-11-22T08:00:00Z or 2026-11-22");
}

}  // namespace
}  // namespace roll::cli
