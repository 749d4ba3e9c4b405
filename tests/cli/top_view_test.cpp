#include "cli/top_view.hpp"

#include <gtest/gtest.h>

#include "cli/render.hpp"

namespace roll::cli {
namespace {

const Time kTopNow = *parse_time("2026-11-21T10:00:00.000Z");

TopData some() {
    TopData data;
    data.jobs = Json::parse(R"([
        {"id": 7, "name": "kjv", "user": "bob", "state": "running",
         "started_at": "2026-11-21T09:58:55.000Z", "progress": {"step": 120, "steps": 300}},
        {"id": 8, "name": "eval", "user": "ann", "state": "queued", "waiting": "waits for ok:7",
         "submitted_at": "2026-11-21T09:59:30.000Z"}])");
    data.running = data.queued = 1;
    data.nodes = Json::parse(R"([{"node": "n1", "slots": 4, "slots_free": 1, "gpus": 8,
        "gpus_free": 6, "draining": false, "jobs": [7], "heard_ms_ago": 200}])");
    data.all = {{"nodes", 1}, {"slots", 4}, {"slots_free", 1}, {"gpus", 8}, {"gpus_free", 6}};
    data.curves[7] = {{3, 2.5, 2, 1}, {10, 10}};
    for (int i = 0; i < 50; ++i) data.events.push_back("event " + std::to_string(i));
    return data;
}

TEST(Sparkline, RisesWithTheValues) {
    EXPECT_EQ(sparkline({}, 5), "");
    EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8), "▁▂▃▄▅▆▇█");
    EXPECT_EQ(sparkline({9, 9, 0, 7}, 2), "▁█") << "the newest";
    EXPECT_EQ(sparkline({4, 4, 4}, 9), "▁▁▁");
}

TEST(Top, ShowsRunningJobsFirstAndFillsTheScreenWithEvents) {
    const auto lines = top_lines(some(), 200, 20, kTopNow);
    ASSERT_EQ(lines.size(), 20u);
    EXPECT_EQ(lines[0],
              "1 running  1 queued  1 node  slots 3/4 busy  GPUs 2/8 busy  2026-11-21T10:00:00Z");
    EXPECT_EQ(lines[6],
              "     7  kjv                  bob        running    1m 05s  step 120/300"
              "  loss █▆▄▁  tokens/s ▁▁");
    EXPECT_EQ(lines[7],
              "     8  eval                 ann        queued        30s  waits for ok:7");
    EXPECT_EQ(lines.back(), "event 49");
}

TEST(Top, PartsOfGpusCount) {
    TopData data = some();
    data.all["gpus_free"] = 6.5;
    EXPECT_NE(top_lines(data, 200, 20, kTopNow)[0].find("GPUs 1.5/8 busy"), std::string::npos);
}

TEST(Top, GpuUseIsOfAHundred) {
    TopData data = some();
    data.curves[7] = {{}, {}, {0, 50, 100}};
    EXPECT_EQ(top_lines(data, 200, 20, kTopNow)[6],
              "     7  kjv                  bob        running    1m 05s  step 120/300  GPU ▁▄█");
    EXPECT_EQ(sparkline({40, 60}, 4, std::pair(0., 100.)), "▄▅");
}

TEST(Top, CurvesGetALineOfTheirOwnWhereTheyDoNotFit) {
    const auto lines = top_lines(some(), 80, 20, kTopNow);
    EXPECT_EQ(lines[6], "     7  kjv                  bob        running    1m 05s  step 120/300");
    EXPECT_EQ(lines[7], "        loss █▆▄▁  tokens/s ▁▁");
    EXPECT_EQ(lines[8].substr(0, 20), "     8  eval        ");
}

TEST(Top, FitsAnyScreen) {
    TopData data = some();
    for (int i = 0; i < 100; ++i) data.jobs.push_back(data.jobs[0]);
    data.running = 100'000;
    while (data.nodes.size() < kNodesShown) data.nodes.push_back(data.nodes[0]);
    data.all["nodes"] = 10'000;
    for (const std::size_t height : {1u, 2u, 10u, 24u, 60u}) {
        for (const std::size_t width : {1u, 20u, 80u}) {
            const auto lines = top_lines(data, width, height, kTopNow);
            EXPECT_LE(lines.size(), height);
            for (const std::string& line : lines) {
                const auto characters = std::ranges::count_if(
                    line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
                EXPECT_LE(static_cast<std::size_t>(characters), width) << line;
            }
        }
    }
    const auto lines = top_lines(data, 80, 24, kTopNow);
    EXPECT_EQ(std::ranges::count(lines, "and 9992 more: rollctl nodes"), 1);
    EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& line) {
        return line.find(" more: rollctl jobs") != std::string::npos;
    }));
}

}  // namespace
}  // namespace roll::cli
