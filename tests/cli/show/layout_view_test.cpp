#include "cli/show/layout_view.hpp"

#include <gtest/gtest.h>

namespace roll::cli {
namespace {

Json job(const Json& parallel, const Json& micro_batch_size = 4) {
    return {
        {"resources", {{"nodes", 2}, {"slots_per_node", 4}}},
        {"spec", {{"train", {{"micro_batch_size", micro_batch_size}}}, {"parallel", parallel}}}};
}

TEST(LayoutView, NamesWhatRuns) {
    const Json chosen = {{"tp", 2},          {"pp", 2},
                         {"vpp", 2},         {"zero", 1},
                         {"sequence", true}, {"recompute", "attention"},
                         {"group", 3},       {"schedule", "interleaved"}};
    const Json layout = layout_of(job(chosen));
    EXPECT_EQ(layout["dp"], 2);  // 8 ranks / (tp 2 x pp 2)
    EXPECT_EQ(layout["schedule"], "interleaved");
    EXPECT_EQ(layout_text(layout),
              "dp 2, tp 2, pp 2, vpp 2, zero 1, sequence, recompute attention, interleaved, "
              "group 3, micro_batch_size 4");
}

TEST(LayoutView, LeavesOutWhatIsNotDivided) {
    EXPECT_EQ(layout_text(layout_of(job({{"dp", 1}, {"schedule", "auto"}}))), "micro_batch_size 4");
    EXPECT_EQ(layout_text(layout_of(job({{"pp", 8}, {"schedule", "auto"}}))),
              "pp 8, schedule auto, micro_batch_size 4");
    EXPECT_EQ(layout_text(layout_of(
                  job({{"pp", 8}, {"schedule", "auto"}, {"schedule_file", "/mine.csv"}}))),
              "pp 8, schedule file, micro_batch_size 4");
}

TEST(LayoutView, NamesTheScheduleThatTheTrainerChose) {
    Json running = job({{"pp", 2}, {"schedule", "auto"}});
    for (const Json& progress :
         {Json(R"({"step":2,"schedule":"zb-h1"})"), Json{{"step", 2}, {"schedule", "zb-h1"}}}) {
        running["progress"] = progress;
        EXPECT_EQ(layout_of(running)["schedule"], "zb-h1");
    }
    EXPECT_EQ(layout_text(layout_of(running)), "dp 4, pp 2, zb-h1, micro_batch_size 4");
    running["spec"]["parallel"]["schedule"] = "gpipe";
    EXPECT_EQ(layout_of(running)["schedule"], "gpipe");
}

TEST(LayoutView, NamesTheChosenScheduleOfAnEndedJob) {
    const Json head = {{"schema", "roll.metrics/1"}, {"schedule", "zb-h1"}};
    Json layout = layout_of(job({{"pp", 2}, {"schedule", "auto"}}));
    for (const Json& none : {Json(), Json::array(), Json{{"step", 1}}}) {
        add_chosen_schedule(layout, none);
        EXPECT_EQ(layout["schedule"], "auto") << none;
    }
    add_chosen_schedule(layout, head);
    EXPECT_EQ(layout["schedule"], "zb-h1");
    layout["schedule"] = "gpipe";
    add_chosen_schedule(layout, head);
    EXPECT_EQ(layout["schedule"], "gpipe");
}

TEST(LayoutView, ASearchListsItsLayoutsInTheSameWords) {
    const Json report = Json::parse(R"({"searched": ["pp", "zero"], "ranks": 8, "legal": 1,
        "simulated": 1, "memory_limit": 2147483648, "memory_limit_from": "parallel.memory_limit",
        "best": [{"dp": 2, "tp": 2, "cp": 2, "pp": 2, "vpp": 1, "zero": 1, "sequence": true,
                  "recompute": "none", "schedule": "zb-h1", "micro_batch_size": 4,
                  "relative_time": 1, "bubble": 0.141, "memory_bytes": 151519232,
                  "sent_bytes": 2673868}],
        "refused": [{"why": "tp 8: needs more"}], "rules": ["a", "b", "c", "d"]})");
    const std::vector<std::string> lines = layout_lines(report);
    ASSERT_EQ(lines.size(), 8u);
    EXPECT_EQ(lines[0],
              "layout: chose pp, zero for 8 ranks from 1 layout (1 simulated); memory "
              "limit of a rank: 2 GiB (parallel.memory_limit)");
    EXPECT_EQ(lines[1], "      time   bubble      memory        sent  layout");
    EXPECT_EQ(lines[2],
              "  1  1.000   14.1 %   144.5 MiB     2.5 MiB  "
              "dp 2, tp 2, cp 2, pp 2, zero 1, sequence, zb-h1, micro_batch_size 4");
    EXPECT_EQ(lines[3], "  refused  tp 8: needs more");
    EXPECT_EQ(lines[6], "  refused  c");
}

TEST(LayoutView, OtherJobsHaveNoLayout) {
    EXPECT_TRUE(layout_of({{"spec", {{"command", {"true"}}}}}).is_null());
    EXPECT_TRUE(layout_of(Json::object()).is_null());
    EXPECT_TRUE(layout_of(job(Json::object(), "auto")).is_null());
}

}  // namespace
}  // namespace roll::cli
