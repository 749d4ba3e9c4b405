// Tests the pages of `rollctl top` and the effects of its keys.
#include <algorithm>

#include <gtest/gtest.h>

#include "cli/show/job_view.hpp"
#include "cli/text/text_width.hpp"
#include "cli/top/key_help.hpp"
#include "cli/top/keys.hpp"
#include "cli/top/rows.hpp"
#include "cli/top/view.hpp"

namespace roll::cli::top {
namespace {

const Time kTopNow = *parse_time("2026-11-21T10:00:00.000Z");

Canvas canvas(std::size_t width, std::size_t height) {
    return {width, height, true, kTopNow, false};
}

Data some() {
    Data data;
    data.jobs = Json::parse(R"([
        {"id": 7, "name": "kjv", "user": "bob", "state": "running", "nodes": ["n1"],
         "started_at": "2026-11-21T09:58:55.000Z", "progress": {"step": 120, "steps": 300}},
        {"id": 8, "name": "eval", "user": "ann", "state": "queued", "waiting": "waits for ok:7",
         "nodes": [], "submitted_at": "2026-11-21T09:59:30.000Z"},
        {"id": 17, "name": "sweep", "user": "ann", "state": "queued", "nodes": [],
         "submitted_at": "2026-11-21T09:00:00.000Z", "waiting": "waits for free resources",
         "array": {"job": 17}, "fold": {"first": 17, "last": 116, "tasks": 100,
         "indices": "1-100", "states": {"done": 72, "queued": 28}}}])");
    data.running = data.queued = 1;
    data.nodes = Json::parse(R"([{"node": "n1", "slots": 4, "slots_free": 1, "gpus": 8,
        "gpus_free": 6, "draining": false, "jobs": [7], "wall": "cgroup", "segment": "",
        "heard_ms_ago": 200}])");
    data.all = {{"nodes", 1}, {"slots", 4}, {"slots_free", 1}, {"gpus", 8}, {"gpus_free", 6}};
    data.curves[7] = {{3, 2.5, 2, 1}, {10, 10}, {}, {1e8, 2e8, 2.5e9}};
    for (int i = 0; i < 50; ++i) data.events.push_back("event " + std::to_string(i));
    return data;
}

Data with_open_job() {
    Data data = some();
    data.open.job = data.jobs[0];
    data.open.job["kind"] = "train";
    data.open.job["output"] = "/runs/kjv-7";
    data.open.job["resources"] = {{"nodes", 1}, {"slots_per_node", 2}, {"gpus_per_node", 0}};
    data.open.job["attempts"] = Json::parse(R"([{"attempt": 1, "token": "1-1", "state": "running",
        "started_at": "2026-11-21T09:58:55.000Z", "nodes": ["n1"]}])");
    for (int step = 1; step <= 120; ++step) {
        data.open.loss.push_back({double(step), 6.0 - step / 24.0});
        data.open.speed.push_back({double(step), 1000.0 + step});
        add_step(data.open.phases, Json::parse(R"({"step": )" + std::to_string(step) +
                                               R"(, "wall_s": 0.5, "phases": {
            "forward": {"mean": 0.2, "max": 0.3}, "backward": {"mean": 0.299, "max": 0.31},
            "data": {"mean": 0.001, "max": 0.002}, "save": {"mean": 0, "max": 0}}})"));
    }
    for (int i = 0; i < 100; ++i) data.log.lines.push_back("line " + std::to_string(i));
    data.log.before = 1000;
    data.log.title = "/runs/kjv-7/logs/attempt-1/rank-0.log";
    return data;
}

std::string shown(const Data& data, const Ui& ui, const Canvas& on) {
    std::string text;
    for (const Line& line : draw(data, ui, on)) text += text_of(line) + "\n";
    return text;
}

Key character(char c) { return {Key::Character, c}; }

TEST(Sparkline, RisesWithTheValues) {
    EXPECT_EQ(sparkline({}, 5, true), "");
    EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, true), "▁▂▃▄▅▆▇█");
    EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, false), "_.-~=+*#");
    EXPECT_EQ(sparkline({9, 9, 0, 7}, 2, true), "▁█") << "the newest";
    EXPECT_EQ(sparkline({4, 4, 4}, 9, true), "▁▁▁");
    EXPECT_EQ(sparkline({40, 60}, 4, true, std::pair(0., 100.)), "▄▅");
}

TEST(TopView, AnOrdinaryTerminalShowsJobsAndEvents) {
    EXPECT_EQ(shown(some(), {}, canvas(80, 24)),
              "1 running  1 queued  1 node  slots 3/4 busy  GPUs 2/8 busy  2026-11-21T10:00:00Z\n"
              "[1 Jobs] 2 Nodes  3 Allocations   by state\n"
              "        ID  NAME   USER  STATE      TIME  NODES  INFO\n"
              ">        7  kjv    bob   running  1m 05s  n1     step 120/300\n"
              "         8  eval   ann   queued      30s         waits for ok:7\n"
              " 17[1-100]  sweep  ann   queued   1h 00m         72 done, 28 waiting: waits for+\n"
              "\n\n\n\n\n\n\n\n\n\n\n\n\n"
              "Events\nevent 47\nevent 48\nevent 49\n"
              "? help  q quit  Enter open  l log  c cancel  / filter  s sort  Tab page\n");
}

TEST(TopView, TheLastLineShowsOnlyWholeKeys) {
    const auto last = [](const Ui& ui, std::size_t width) {
        return text_of(draw(some(), ui, canvas(width, 10)).back());
    };
    EXPECT_EQ(
        last({}, 100),
        "? help  q quit  Enter open  l log  c cancel  / filter  s sort  Tab page  a finished  "
        "r tasks");
    EXPECT_EQ(last({}, 40), "? help  q quit  Enter open  l log");
    EXPECT_EQ(last({}, 14), "? help  q quit");
    EXPECT_EQ(last({}, 13), "? help");
    EXPECT_EQ(last({}, 5), "");
    EXPECT_EQ(last({.job = 7, .log = true}, 40), "following  Esc back  ? help");
}

TEST(TopView, AWideTerminalShowsEveryColumn) {
    const std::string text = shown(some(), {}, canvas(200, 60));
    EXPECT_NE(text.find("\n>        7  kjv    bob   running  1m 05s  █▆▄▁  ▁▁         2.3 GiB ▁▁█"
                        "  n1     step 120/300\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("  72 done, 28 waiting: waits for free resources\n"), std::string::npos);
}

TEST(TopView, TheNodesPageShowsNodes) {
    EXPECT_NE(shown(some(), {.page = Page::Nodes}, canvas(80, 24))
                  .find("\n NODE  SLOTS FREE  GPUS FREE  STATE  WALL     HEARD  JOBS\n"
                        ">n1           1/4        6/8  up     cgroup  0s ago  7\n"),
              std::string::npos)
        << shown(some(), {.page = Page::Nodes}, canvas(80, 24));
    EXPECT_NE(shown(some(), {.page = Page::Allocations}, canvas(80, 24))
                  .find("there is no allocation queue"),
              std::string::npos);
}

TEST(TopView, AJobHasItsCurvesOverTheWholeRun) {
    const Ui ui{.job = 7};
    const std::string narrow = shown(with_open_job(), ui, canvas(80, 50));
    EXPECT_NE(narrow.find("\nloss: 5.958 at step 1, 1 at step 120\n"), std::string::npos) << narrow;
    EXPECT_NE(narrow.find("\ntokens/s: 1001 at step 1, 1120 at step 120\n"), std::string::npos);
    EXPECT_NE(narrow.find("        1  1-1    running  1m 05s  n1\n"), std::string::npos);
    EXPECT_NE(narrow.find("\n  time of a step  backward 60 %, forward 40 %\n"), std::string::npos);
    const std::string wide = shown(with_open_job(), ui, canvas(200, 60));
    const std::size_t loss = wide.find("loss: "), speed = wide.find("tokens/s: ");
    EXPECT_EQ(wide.substr(loss, speed - loss).find('\n'), std::string::npos) << "side by side";
    EXPECT_NE(shown(some(), ui, canvas(80, 24)).find("reading the job ..."), std::string::npos);
}

TEST(TopView, AJobHasItsPhasesAsFarAsTheLineHasRoom) {
    Data data = with_open_job();
    data.open.phases = {.steps = 9, .wall = 9, .phases = {}};
    for (const char* phase : {"agreement", "forward", "backward", "optimizer", "bubble", "data"})
        data.open.phases.phases.push_back({phase, 1, 1});
    EXPECT_NE(shown(data, {.job = 7}, canvas(80, 50))
                  .find("\n  time of a step  agreement 17 %, forward 17 %, backward 17 %, "
                        "optimizer 17 %\n"),
              std::string::npos);
}

TEST(TopView, AnEndedJobHasTheScheduleThatTheTrainerChose) {
    Data data = with_open_job();
    data.open.job["spec"] = {{"train", {{"micro_batch_size", 1}}},
                             {"parallel", {{"pp", 2}, {"schedule", "auto"}}}};
    EXPECT_NE(shown(data, {.job = 7}, canvas(80, 50)).find("pp 2, schedule auto, "),
              std::string::npos);
    data.open.head = {{"schema", "roll.metrics/1"}, {"schedule", "zb-h1"}};
    EXPECT_NE(shown(data, {.job = 7}, canvas(80, 50)).find("pp 2, zb-h1, micro_batch_size 1\n"),
              std::string::npos);
}

TEST(TopView, AJobHasItsMemoryAndThatOfEachNode) {
    Data data = with_open_job();
    data.open.loss.clear();
    data.open.speed.clear();
    // The first node's curve has shorter intervals than the second one's.
    data.open.job["memory"] = Json::parse(R"([
        {"node": "n1", "bytes": 1073741824, "every_s": 2, "mebibytes": [512, 2048, 1024, 1024]},
        {"node": "node-2", "bytes": 536870912, "every_s": 4, "mebibytes": [1024, 512]}])");
    for (const std::size_t width : {80, 100, 200}) {
        const std::string text = shown(data, {.job = 7}, canvas(width, 60));
        const std::size_t at = text.find("\nmemory in GiB during 8s: 1.5 GiB now, 3 GiB maximum\n");
        ASSERT_NE(at, std::string::npos) << text;
        EXPECT_NE(text.find("\n        3 |*", at), std::string::npos) << text;
        EXPECT_NE(text.find("\n      1.5 |", at), std::string::npos) << text;
        EXPECT_NE(text.find("\nmemory of each node\n"
                            "  n1         1 GiB  ▂█▄▄\n"
                            "  node-2   512 MiB  ▄▂\n",
                            at),
                  std::string::npos)
            << text;
    }
    data.open.job["memory"].erase(1);
    EXPECT_EQ(shown(data, {.job = 7}, canvas(80, 60)).find("each node"), std::string::npos);
}

TEST(TopView, FitsAnyScreen) {
    Data data = with_open_job();
    for (int i = 0; i < 100; ++i) {
        data.jobs.push_back(data.jobs[0]);
        data.jobs.back()["id"] = 100 + i;
        data.jobs.back()["name"] = std::string(60, 'n');
        data.jobs.back()["progress"]["phase"] = "保存\x1b[2J\t保存 " + std::string(90, 'x');
        data.nodes.push_back(data.nodes[0]);
        data.log.lines.push_back(std::string(500, 'l'));
    }
    const std::vector<Ui> all = {{},
                                 {.page = Page::Nodes},
                                 {.page = Page::Allocations},
                                 {.job = 7},
                                 {.job = 7, .log = true, .shift = 16},
                                 {.help = true},
                                 {.filter = "nothing", .typing = true}};
    for (const auto& [width, height] :
         {std::pair{1, 1}, {5, 2}, {20, 3}, {40, 10}, {80, 24}, {120, 40}, {200, 60}}) {
        for (const Ui& ui : all) {
            const auto lines = draw(data, ui, canvas(width, height));
            ASSERT_EQ(lines.size(), height);
            for (const Line& line : lines) {
                EXPECT_LE(columns_of(text_of(line)), width) << text_of(line);
                EXPECT_EQ(text_of(line).find('\x1b'), std::string::npos);
            }
        }
    }
}

TEST(TopKeys, MoveTheSelectionAndOpenAJob) {
    Ui ui;
    const Data data = some();
    const Canvas on = canvas(80, 24);
    const auto selected = [&] {
        return list_of(data, ui, on).rows[selected_index(list_of(data, ui, on), ui)].key;
    };
    EXPECT_EQ(selected(), "7");
    press(ui, {Key::Down}, data, on);
    EXPECT_EQ(selected(), "8");
    press(ui, character('j'), data, on);
    press(ui, {Key::Down}, data, on);
    EXPECT_EQ(selected(), "17") << "the last row";
    press(ui, {Key::Home}, data, on);
    EXPECT_EQ(selected(), "7");
    press(ui, {Key::PageDown}, data, on);
    EXPECT_EQ(selected(), "17");
    press(ui, character('k'), data, on);
    press(ui, {Key::Enter}, data, on);
    EXPECT_EQ(ui.job, 8u);
    press(ui, character('l'), data, on);
    EXPECT_TRUE(ui.log);
    EXPECT_EQ(wanted_of(ui), (Wanted{.job = 8, .log = true}));
    press(ui, {Key::Escape}, data, on);
    EXPECT_FALSE(ui.log);
    EXPECT_EQ(ui.job, 8u);
    EXPECT_FALSE(press(ui, character('q'), data, on).quit) << "back to the list";
    EXPECT_EQ(ui.job, std::nullopt);
    EXPECT_TRUE(press(ui, character('q'), data, on).quit);
    EXPECT_EQ(selected(), "8") << "the selection stays";
}

TEST(TopKeys, TheSelectionStaysWithItsJobWhenRowsCome) {
    Ui ui;
    Data data = some();
    press(ui, {Key::Down}, data, canvas(80, 24));
    data.jobs.insert(data.jobs.begin(), data.jobs[0]);
    data.jobs[0]["id"] = 3;
    EXPECT_NE(shown(data, ui, canvas(80, 24)).find("\n>        8  eval"), std::string::npos);
}

TEST(TopKeys, SortFilterAndPages) {
    Ui ui;
    const Data data = some();
    const Canvas on = canvas(120, 24);
    const auto ids = [&] {
        std::string text;
        for (const Row& row : list_of(data, ui, on).rows) text += row.key + " ";
        return text;
    };
    EXPECT_EQ(ids(), "7 8 17 ");
    std::vector<std::string> orders;
    for (std::size_t i = 0; i < kSortNames.size(); ++i) {
        press(ui, character('s'), data, on);
        orders.push_back(ids());
    }
    EXPECT_EQ(orders,
              (std::vector<std::string>{"7 8 17 ", "8 7 17 ", "8 17 7 ", "17 7 8 ", "7 8 17 "}))
        << "by id, name, user, time, state";
    press(ui, character('S'), data, on);
    EXPECT_EQ(ids(), "17 8 7 ");
    press(ui, character('/'), data, on);
    for (const char c : std::string("ANNx")) press(ui, character(c), data, on);
    EXPECT_EQ(ids(), "");
    EXPECT_NE(shown(data, ui, on).find("\nfilter: ANNx_\n"), std::string::npos);
    press(ui, {Key::Backspace}, data, on);
    press(ui, {Key::Enter}, data, on);
    EXPECT_EQ(ids(), "17 8 ");
    press(ui, {Key::Escape}, data, on);
    EXPECT_EQ(ids(), "17 8 7 ");
    press(ui, {Key::Tab}, data, on);
    EXPECT_EQ(ids(), "n1 ");
    press(ui, {Key::BackTab}, data, on);
    press(ui, {Key::BackTab}, data, on);
    EXPECT_EQ(ui.page, Page::Allocations);
    press(ui, character('1'), data, on);
    EXPECT_EQ(ui.page, Page::Jobs);
    press(ui, character('a'), data, on);
    press(ui, character('r'), data, on);
    EXPECT_EQ(wanted_of(ui), (Wanted{.finished = true, .expand = true}));
}

TEST(TopKeys, CancelAsksFirst) {
    Ui ui;
    Data data = some();
    const Canvas on = canvas(80, 24);
    EXPECT_EQ(press(ui, character('c'), data, on).cancel, "");
    EXPECT_NE(shown(data, ui, on).find("\ncancel job 7 kjv? y/n\n"), std::string::npos);
    EXPECT_EQ(press(ui, character('n'), data, on).cancel, "");
    EXPECT_NE(shown(data, ui, on).find("\njob 7 kjv: not cancelled\n"), std::string::npos);
    press(ui, character('c'), data, on);
    EXPECT_EQ(press(ui, {Key::Enter}, data, on).cancel, "") << "only y confirms";
    press(ui, {Key::End}, data, on);
    press(ui, character('c'), data, on);
    EXPECT_EQ(press(ui, character('y'), data, on).cancel, "17-116") << "all tasks of the array";
    data.answers = 1;
    data.answer = "jobs 89-116 cancelled";
    EXPECT_NE(shown(data, ui, on).find("\njobs 89-116 cancelled\n"), std::string::npos);
    press(ui, {Key::Home}, data, on);
    EXPECT_EQ(shown(data, ui, on).find("\njobs 89-116 cancelled\n"), std::string::npos);
    data.jobs[0]["state"] = "done";
    ui.sort = Sort::Id;
    press(ui, {Key::Home}, data, on);
    press(ui, character('c'), data, on);
    EXPECT_FALSE(ui.confirm);
    EXPECT_EQ(ui.message, "job 7 kjv has ended");
}

TEST(TopKeys, ALogFollowsItsEndUntilItIsScrolled) {
    Ui ui{.job = 7, .log = true};
    Data data = with_open_job();
    const Canvas on = canvas(80, 24);
    EXPECT_NE(shown(data, ui, on).find("\nline 99\n"), std::string::npos);
    press(ui, {Key::PageUp}, data, on);
    EXPECT_EQ(ui.log_top, 1000u + 100 - 2 * body_rows(on));
    const std::string before = shown(data, ui, on);
    EXPECT_EQ(before.find("\nline 99\n"), std::string::npos);
    data.log.lines.emplace_back("line 100");
    EXPECT_EQ(shown(data, ui, on), before) << "new lines do not move the text";
    press(ui, {Key::Home}, data, on);
    EXPECT_NE(shown(data, ui, on).find("\nline 0\n"), std::string::npos);
    press(ui, {Key::End}, data, on);
    EXPECT_EQ(ui.log_top, std::nullopt);
    EXPECT_NE(shown(data, ui, on).find("\nline 100\n"), std::string::npos);
    press(ui, {Key::Right}, data, on);
    EXPECT_EQ(shown(data, ui, on).find("line 100"), std::string::npos);
    press(ui, character(']'), data, on);
    EXPECT_EQ(ui.rank, 1);
    press(ui, character(']'), data, on);
    EXPECT_EQ(ui.rank, 1);
    EXPECT_EQ(ui.message, "the job has the ranks 0 to 1");
}

TEST(TopKeys, TheHelpNamesEachKeyAndFits) {
    Ui ui;
    press(ui, character('?'), {}, canvas(80, 24));
    const std::string text = shown({}, ui, canvas(80, 24));
    for (const KeyHelp& one : kKeyHelp)
        EXPECT_NE(text.find(std::string(one.what) + "\n"), std::string::npos) << one.what;
    press(ui, {Key::Escape}, {}, canvas(80, 24));
    EXPECT_FALSE(ui.help);
}

}  // namespace
}  // namespace roll::cli::top
