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

TEST(LayoutView, OtherJobsHaveNoLayout) {
    EXPECT_TRUE(layout_of({{"spec", {{"command", {"true"}}}}}).is_null());
    EXPECT_TRUE(layout_of(Json::object()).is_null());
    EXPECT_TRUE(layout_of(job(Json::object(), "auto")).is_null());
}

}  // namespace
}  // namespace roll::cli
