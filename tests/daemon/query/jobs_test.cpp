// The pages of `jobs` with folded arrays, newest jobs first, and since a time.
#include <gtest/gtest.h>

#include "common/spec/schema/array.hpp"
#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {
namespace {

std::string ids(const Json& reply) {
    std::string text;
    for (const Json& job : reply.at("jobs")) text += job["id"].dump() + " ";
    return text;
}

// Job 1, the array 2-11 of which 2 tasks are done and 2 run, and job 12.
class Listing : public ::testing::Test {
  protected:
    void SetUp() override {
        desk.join("n1", 2);
        spec::JobSpec array = core::wants(1, 1);
        array.array = spec::Array{};
        array.array->indices = "1-10";
        array.output = "/runs/{index}";
        desk.submit(hold(core::wants(1, 1)));
        desk.submit(array);
        desk.submit(hold(core::wants(1, 1)));
        desk.exit(JobId{2}, core::Outcome::Done);
        desk.exit(JobId{3}, core::Outcome::Invalid, 3);
    }
    static spec::JobSpec hold(spec::JobSpec spec) {
        spec.hold = true;
        return spec;
    }
    Json ask(const protocol::JobsArgs& args) const {
        return jobs(desk.state, args, {}, desk.now).value();
    }
    core::Desk desk;
};

TEST_F(Listing, TheTasksOfAnArrayHaveOneRow) {
    const Json reply = ask({.fold = true});
    EXPECT_EQ(ids(reply), "1 2 12 ");
    const Json& array = reply["jobs"][1];
    EXPECT_EQ(array["fold"],
              Json({{"first", 2},
                    {"last", 11},
                    {"tasks", 10},
                    {"indices", "1-10"},
                    {"states", {{"done", 1}, {"failed", 1}, {"running", 2}, {"queued", 6}}}}));
    EXPECT_EQ(array["state"], "running") << "the row shows a running task";
    EXPECT_FALSE(reply["jobs"][0].contains("fold"));
    EXPECT_EQ(ids(ask({})), "1 4 5 6 7 8 9 10 11 12 ") << "without fold as before";
}

TEST_F(Listing, TheRowOfASweepShowsNoTrialThatHalvingStopped) {
    spec::JobSpec array = core::wants(1, 1);
    array.array = spec::Array{.indices = "0-1"};
    array.output = "/more/{index}";
    array.hold = true;
    desk.submit(array);
    const JobId trial{14};
    desk.tell(core::Cancel{.job = JobId{13}, .reason = "no"});
    desk.tell(core::Cancel{.job = trial, .reason = "stopped by halving", .halved = true});
    const Json row = ask({.all = true, .fold = true})["jobs"].back();
    EXPECT_EQ(row["fold"]["first"], 13);
    EXPECT_EQ(row["reason"], "no");
    EXPECT_EQ(row["halved"], false);
    EXPECT_EQ(ask({.selector = "14", .all = true})["jobs"][0]["halved"], true);
}

TEST_F(Listing, OnlyJobsOfTheKindAreListed) {
    spec::JobSpec train = hold(core::wants(1, 1));
    train.kind = spec::JobKind::Train;
    desk.submit(train);
    EXPECT_EQ(ids(ask({.kind = "train"})), "13 ");
    EXPECT_EQ(ids(ask({.kind = "command", .fold = true})), "1 2 12 ");
    EXPECT_EQ(ids(ask({.kind = "open"})), "");
    const auto refused = jobs(desk.state, {.kind = "trains"}, {}, desk.now);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "there is no kind trains");
}

TEST_F(Listing, AnArrayThatHasNotBegunToEndIsCountedAlike) {
    spec::JobSpec array = core::wants(1, 1);
    array.array = spec::Array{.indices = "0-8:2"};
    array.output = "/more/{index}";
    desk.submit(array);
    const Json fold = ask({.fold = true})["jobs"][3]["fold"];
    EXPECT_EQ(fold, Json({{"first", 13},
                          {"last", 17},
                          {"tasks", 5},
                          {"indices", "0-8:2"},
                          {"states", {{"queued", 5}}}}));
    desk.join("n2", 2);
    const Json running = ask({.fold = true})["jobs"];
    EXPECT_EQ(running[1]["fold"]["states"]["running"], 4);
    desk.join("n3", 64);
    const Json row = ask({.fold = true})["jobs"][3];
    EXPECT_EQ(row["fold"]["states"], Json({{"running", 5}}));
    EXPECT_EQ(row["nodes"], Json({"n3"})) << "the row shows a running task";
}

TEST_F(Listing, OnlyTheWantedTasksAreFolded) {
    const Json queued = ask({.state = "queued", .fold = true});
    EXPECT_EQ(queued["jobs"][1]["fold"]["states"], Json({{"queued", 6}}));
    EXPECT_EQ(queued["jobs"][1]["fold"]["indices"], "5-10");
    const Json some = ask({.selector = "2-4,6", .fold = true});
    EXPECT_EQ(ids(some), "2 ");
    EXPECT_EQ(some["jobs"][0]["fold"]["indices"], "1-3,5");
    const Json one = ask({.selector = "4", .fold = true});
    EXPECT_EQ(ids(one), "4 ");
    EXPECT_FALSE(one["jobs"][0].contains("fold")) << "a single task has its own row";
}

TEST_F(Listing, TheNewestJobsComeFirstAndPagesGoOn) {
    EXPECT_EQ(ids(ask({.fold = true, .reverse = true})), "12 2 1 ");
    const Json first = ask({.all = true, .limit = 3, .reverse = true});
    EXPECT_EQ(ids(first), "12 11 10 ");
    EXPECT_EQ(ids(ask({.from = first["next"], .reverse = true})), "9 8 7 6 5 4 1 ");
    const Json folded = ask({.limit = 2, .fold = true, .reverse = true});
    EXPECT_EQ(folded["next"], 1);
    EXPECT_EQ(ask({.from = 1, .reverse = true})["next"], nullptr);
}

TEST_F(Listing, JobsThatEndedEarlierAreLeftOut) {
    desk.pass(std::chrono::hours(1));
    const auto since = desk.now.time_since_epoch().count();
    desk.tell(core::Cancel{JobId{12}, "no"});
    EXPECT_EQ(ids(ask({.all = true, .since = since})), "1 4 5 6 7 8 9 10 11 12 ");
    EXPECT_EQ(ids(ask({.all = true, .since = since + 1})), "1 4 5 6 7 8 9 10 11 ");
}

TEST(LongListing, APageVisitsALimitedNumberOfJobsAndNoneIsLost) {
    core::Desk desk;
    desk.careful = false;
    constexpr int kArrays = 6;
    for (int i = 0; i < kArrays; ++i) {
        spec::JobSpec array = core::wants(1, 1);
        array.array = spec::Array{};
        array.array->indices = "1-9000";
        array.output = "/runs/{index}";
        desk.submit(array);
        if (i < 4) desk.tell(core::Cancel{JobId{desk.state.next_job - 1}, "no"});
    }
    const Json all = jobs(desk.state, {.fold = true}, {}, desk.now).value();
    EXPECT_EQ(all["jobs"][0]["fold"]["states"], Json({{"cancelled", 1}, {"queued", 8999}}));
    for (const bool reverse : {false, true}) {
        std::vector<std::uint64_t> found;
        int pages = 0;
        protocol::JobsArgs args{.fields = {"id"}, .fold = true, .reverse = reverse};
        for (Json next = 0; !next.is_null(); ++pages) {
            args.from = next.get<std::uint64_t>();
            const Json page = jobs(desk.state, args, {}, desk.now).value();
            for (const Json& job : page["jobs"]) found.push_back(job["id"].get<std::uint64_t>());
            next = page["next"];
        }
        EXPECT_EQ(pages, 2);
        if (reverse) std::ranges::reverse(found);
        ASSERT_EQ(found.size(), kArrays);
        for (int i = 0; i < kArrays; ++i) EXPECT_EQ(found[i], 1 + 9000u * i);
    }
}

}  // namespace
}  // namespace roll::query
