#include "daemon/http/exposition.hpp"

#include <gtest/gtest.h>

namespace roll::http {
namespace {

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

const Json kTotals = Json::parse(R"({"jobs": {"queued": 3, "running": 1, "done": 7, "failed": 0,
    "cancelled": 2, "held": 1}, "submitted": 13, "longest_wait_seconds": 2.5, "stopped": true,
    "ettr": 0.625, "users": [{"user": "ann", "queued": 3, "running": 1, "slots": 4, "gpus": 0.5}],
    "nodes": {"connected": 2, "silent": 1, "draining": 0, "excluded": 0},
    "capacity": {"nodes": 2, "slots": 8, "slots_free": 4, "gpus": 2, "gpus_free": 1.5},
    "allocations": {"ordered": 0, "pending": 1, "granted": 2}})");
const Json kVersion = Json::parse(R"({"incarnation": 4, "turns": {"count": 10, "p99_ms": 0.5,
    "longest_ms": 2}, "commits": {"count": 9, "seconds": 0.125, "p99_ms": 1, "longest_ms": 3,
    "recent_longest_ms": 2}, "ledger": {"bytes": 4096, "wal_bytes": 0, "free_bytes": 123456},
    "fenced": 2,
    "dispatches": {"count": 4, "seconds": 2.5, "buckets": [{"le": 0.005, "count": 1},
                                                           {"le": 60, "count": 3}]}})");

TEST(Exposition, HasTheCountsOfTheReplies) {
    const std::string text = exposition(kTotals, kVersion, Json{{"jobs", Json::array()}});
    for (const char* line : {"roll_up 1",
                             "roll_jobs{state=\"queued\"} 3",
                             "roll_jobs{state=\"cancelled\"} 2",
                             "roll_jobs_held 1",
                             "roll_jobs_submitted_total 13",
                             "roll_queue_longest_wait_seconds 2.5",
                             "# TYPE roll_training_ettr gauge",
                             "roll_training_ettr 0.625",
                             "roll_user_gpus{user=\"ann\"} 0.5",
                             "roll_nodes 2",
                             "roll_nodes_silent 1",
                             "roll_slots_free 4",
                             "roll_gpus_free 1.5",
                             "roll_dispatch_stopped 1",
                             "roll_allocations{state=\"granted\"} 2",
                             "roll_incarnation 4",
                             "roll_turns_total 10",
                             "roll_turn_p99_seconds 0.0005",
                             "roll_commit_longest_seconds 0.003",
                             "roll_commit_recent_longest_seconds 0.002",
                             "roll_commit_seconds_total 0.125",
                             "roll_ledger_bytes 4096",
                             "roll_ledger_wal_bytes 0",
                             "roll_ledger_volume_free_bytes 123456",
                             "roll_fenced_total 2",
                             "# TYPE roll_dispatch_seconds histogram",
                             "roll_dispatch_seconds_bucket{le=\"0.005\"} 1",
                             "roll_dispatch_seconds_bucket{le=\"60\"} 3",
                             "roll_dispatch_seconds_bucket{le=\"+Inf\"} 4",
                             "roll_dispatch_seconds_sum 2.5",
                             "roll_dispatch_seconds_count 4",
                             "# TYPE roll_jobs_submitted_total counter",
                             "# TYPE roll_jobs gauge"})
        EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Exposition, LabelsAreEscapedAndProgressThatIsNoNumberIsLeftOut) {
    const Json job{{"id", 7},
                   {"name", "a\"b\\c\nd"},
                   {"user", "ann"},
                   {"progress", {{"step", 5}, {"loss", "nan"}, {"memory", 4096}}},
                   {"ettr", 0.75}};
    const std::string text =
        exposition(kTotals, kVersion, Json{{"jobs", {job, {{"id", 8}, {"progress", nullptr}}}}});
    const std::string line = R"(roll_job_step{job="7",name="a\"b\\c\nd",user="ann"} 5)";
    EXPECT_TRUE(has_line(text, line)) << text;
    EXPECT_NE(text.find("\nroll_job_memory_bytes{"), std::string::npos);
    EXPECT_NE(text.find("\nroll_job_ettr{job=\"7\""), std::string::npos);
    EXPECT_EQ(text.find("roll_job_loss{"), std::string::npos);
    EXPECT_EQ(text.find("job=\"8\""), std::string::npos);
}

TEST(Exposition, ARolldThatDoesNotAnswerIsDown) {
    EXPECT_TRUE(has_line(exposition_of_silence(), "roll_up 0"));
    EXPECT_EQ(exposition_of_silence().find("roll_jobs"), std::string::npos);
}

// rolld of an older version has no `totals`; a reply may lack fields.
TEST(Exposition, MissingFieldsAreLeftOut) {
    const std::string text = exposition(Json::object(), Json(), Json());
    EXPECT_TRUE(has_line(text, "roll_up 1"));
    EXPECT_EQ(text.find("roll_jobs{"), std::string::npos);
}

}  // namespace
}  // namespace roll::http
