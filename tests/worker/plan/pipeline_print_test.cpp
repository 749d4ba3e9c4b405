// Compares printed schedules with what a reader expects to see.
#include "worker/plan/pipeline_print.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "common/json.hpp"

namespace roll::plan {
namespace {

struct Drawn {
    PipelineSchedule schedule;
    ScheduleReport report;
};

Drawn drawn(PipelineSchedule schedule, const std::vector<Costs>& costs = {}) {
    ScheduleReport report = check(schedule, costs).value();
    return {std::move(schedule), std::move(report)};
}

std::string table(const Drawn& d) { return table_text(d.schedule, d.report); }

TEST(Print, ATableHasALineForEachRankAndAColumnForEachUnit) {
    EXPECT_EQ(table(drawn(zero_bubble_h1(2, 3))),
              "0 |F0 F1    B0 W0 F2 B1 W1 B2 W2\n"
              "1 |   F0 B0 F1 B1 W0 F2 B2 W1 W2\n");
}

TEST(Print, ALongerOpIsDrawnLonger) {
    EXPECT_EQ(table(drawn(one_forward_one_backward(2, 2), {{1, 1, 1}, {3, 1, 1}})),
              "0 |F0 F1          B0 W0          B1 W1\n"
              "1 |   F0------ B0 W0 F1------ B1 W1\n");
}

TEST(Print, ALongStepContinuesBelow) {
    EXPECT_EQ(table(drawn(interleaved(2, 2, 4))),
              "0 |F0  F1  F0' F1' F2  B0' W0' F3  B1' W1' F2' B0  W0  F3' B1  W1      B2' W2'\n"
              "1 |    F0  F1  F0' B0' W0' F1' B1' W1' F2  B0  W0  F3  B1  W1  F2' B2' W2' F3'\n"
              "\n"
              "0 |    B3' W3' B2  W2  B3  W3\n"
              "1 |B3' W3' B2  W2  B3  W3\n");
}

TEST(Print, AVeryLongStepLeavesOutItsMiddleAndFitsTheTerminal) {
    const std::string text = table(drawn(interleaved(4, 2, 32)));
    EXPECT_NE(text.find("\n  | ... 150 units of time left out ...\n"), std::string::npos);
    std::istringstream lines(text);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_EQ(count, 4 * 4 + 3 + 2);  // four bands, lines between them, and the note
}

TEST(Print, TheDrawingHasARowForEachStageAndABoxForEachOp) {
    const Drawn d = drawn(one_forward_one_backward(2, 2), {{1, 1, 1}, {3, 1, 1}});
    const std::string svg = svg_text(d.schedule, d.report, "a <b> & c");
    const auto number_of = [&](const std::string& what) {
        int count = 0;
        for (auto at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1))
            ++count;
        return count;
    };
    EXPECT_NE(svg.find(">a &lt;b> &amp; c</text>"), std::string::npos);
    EXPECT_EQ(number_of(">stage "), 2);
    EXPECT_EQ(number_of("<rect"), 1 + 3 + 2 + 12);  // background, legend, rows, ops
    // F0 of rank 1 starts after one unit of 18 pixels and takes three.
    EXPECT_NE(svg.find("<rect x=\"82.0\" y=\"84.0\" width=\"54.0\" height=\"22\" fill=\"#9ecbf0\""),
              std::string::npos);
    EXPECT_EQ(number_of(">F0</text>"), 2);
    EXPECT_EQ(number_of("<text"), number_of("</text>"));
    EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(Print, TheTraceHasAnEventForEachOp) {
    const Drawn d = drawn(one_forward_one_backward(2, 2), {{1, 1, 1}, {3, 1, 1}});
    const Json events = Json::parse(trace_text(d.schedule, d.report))["traceEvents"];
    ASSERT_EQ(events.size(), 2U + 12U);
    EXPECT_EQ(events[0]["args"]["name"], "stage 0");
    EXPECT_EQ(events[8], Json::parse(R"({"name": "F0", "cat": "forward", "ph": "X", "ts": 1000.0,
        "dur": 3000.0, "pid": 0, "tid": 1, "args": {"chunk": 0, "micro_batch": 0}})"));
}

}  // namespace
}  // namespace roll::plan
