#include "daemon/api/bulk.hpp"

#include <gtest/gtest.h>

namespace roll::api {
namespace {

constexpr gateway::Instant kNow{std::chrono::hours(1)};

BulkRequest cancels(std::uint64_t id, std::uint64_t first, std::uint64_t count) {
    BulkRequest many{.waiter = {.id = id, .user = "ann"}, .answer = Json(id)};
    for (std::uint64_t i = 0; i < count; ++i) many.jobs.push_back(JobId{first + i});
    many.add_inputs = [](JobId job, std::vector<core::Input>& inputs) {
        inputs.push_back(core::Cancel{job, ""});
    };
    return many;
}

std::vector<std::uint64_t> jobs_of(const std::vector<core::Input>& turn) {
    std::vector<std::uint64_t> jobs;
    for (const core::Input& input : turn) jobs.push_back(std::get<core::Cancel>(input).job.value);
    return jobs;
}

engine::Turn granted(const std::vector<core::Input>& inputs) {
    engine::Turn turn;
    turn.replies.resize(inputs.size());
    return turn;
}

TEST(BulkQueue, ALongRequestIsSpreadAndAShortOneNotHeldUp) {
    BulkQueue shares(4);
    shares.ask(cancels(1, 10, 5));
    shares.ask(cancels(2, 20, 2));
    std::vector<core::Input> turn{core::Cancel{JobId{1}, ""}};  // an input of another request
    shares.add_to(turn);
    EXPECT_EQ(jobs_of(turn), (std::vector<std::uint64_t>{1, 10, 11, 20, 21}));
    const auto first = shares.settle(granted(turn), kNow);
    ASSERT_EQ(first.size(), 1);
    EXPECT_EQ(first[0].waiter.id, 2);

    turn.clear();
    shares.add_to(turn);
    EXPECT_EQ(jobs_of(turn), (std::vector<std::uint64_t>{12, 13, 14}));
    const auto second = shares.settle(granted(turn), kNow);
    ASSERT_EQ(second.size(), 1);
    EXPECT_EQ(*second[0].answer, Json(1));
    EXPECT_TRUE(shares.empty());
}

TEST(BulkQueue, TheFirstRefusalIsTheAnswerWhenAllIsDone) {
    BulkQueue shares(2);
    shares.ask(cancels(1, 1, 5));
    std::vector<std::string> answers;
    for (int i = 0; i < 3; ++i) {
        std::vector<core::Input> turn;
        shares.add_to(turn);
        engine::Turn decided = granted(turn);
        decided.replies.back() =
            fail(ErrorCode::Refused, "job " + std::to_string(jobs_of(turn).back()));
        for (const Answered& one : shares.settle(decided, kNow))
            answers.push_back(one.answer.error().message);
    }
    EXPECT_EQ(answers, (std::vector<std::string>{"job 2"}));
}

TEST(BulkQueue, WhatAsksForNothingIsAnsweredByTheNextTurn) {
    BulkQueue shares;
    shares.ask(cancels(7, 1, 0));
    std::vector<core::Input> turn;
    shares.add_to(turn);
    EXPECT_TRUE(turn.empty());
    EXPECT_EQ(shares.settle(granted(turn), kNow).size(), 1);
}

TEST(BulkQueue, MoreRequestsThanAShareHasInputsAllGoOn) {
    BulkQueue shares(2);
    for (std::uint64_t id = 1; id <= 5; ++id) shares.ask(cancels(id, id * 10, 2));
    std::vector<core::Input> turn;
    shares.add_to(turn);
    EXPECT_EQ(jobs_of(turn), (std::vector<std::uint64_t>{10, 20, 30, 40, 50}));
}

// Returns the number of inputs of the next turn.
std::size_t share_of(BulkQueue& shares) {
    std::vector<core::Input> turn;
    shares.add_to(turn);
    shares.settle(granted(turn), kNow);
    return turn.size();
}

TEST(BulkQueue, ATurnTakesAFewMillisecondsOrAsLongAsASlowCommit) {
    using namespace std::chrono_literals;
    BulkQueue shares(1024);
    shares.ask(cancels(1, 1, 100'000));
    const auto next = [&](std::chrono::milliseconds turn, std::chrono::milliseconds commit) {
        shares.pace(turn, commit);
        return share_of(shares);
    };
    EXPECT_EQ(next(5ms, 1ms), 1024);
    EXPECT_EQ(next(2ms, 1ms), 2048) << "short";
    EXPECT_EQ(next(9ms, 1ms), 1024) << "long";
    EXPECT_EQ(next(9ms, 20ms), 1024) << "long, but shorter than its commit";
    EXPECT_EQ(next(7ms, 20ms), 2048) << "much shorter than its commit";
    EXPECT_EQ(next(25ms, 500ms), 1024) << "too long for other clients, however slow the disk is";
}

TEST(BulkQueue, AWaiterWhoseTimeIsOverIsToldHowFarItIsAndAsksAgain) {
    using namespace std::chrono_literals;
    BulkQueue shares(2, 100);
    BulkRequest many = cancels(1, 1, 5);
    many.waiter.until = kNow + 1s;
    shares.ask(std::move(many));
    std::vector<core::Input> turn;
    shares.add_to(turn);
    EXPECT_TRUE(shares.settle(granted(turn), kNow).empty());
    turn.clear();
    shares.add_to(turn);
    const auto told = shares.settle(granted(turn), kNow + 1s);
    ASSERT_EQ(told.size(), 1);
    EXPECT_EQ((*told[0].answer)["done"], 4);
    EXPECT_EQ((*told[0].answer)["jobs"], 5);
    const std::uint64_t ticket = (*told[0].answer)["ticket"];
    EXPECT_EQ(ticket, 101u);
    turn.clear();
    shares.add_to(turn);
    EXPECT_TRUE(shares.settle(granted(turn), kNow + 2s).empty()) << "nobody waits";
    EXPECT_TRUE(shares.empty());
    EXPECT_FALSE(shares.ask_again(ticket, {.id = 2, .user = "bob"}));
    EXPECT_TRUE(shares.ask_again(ticket, {.id = 3, .user = "ann"}));
    const auto ended = shares.settle(engine::Turn{}, kNow + 3s);
    ASSERT_EQ(ended.size(), 1);
    EXPECT_EQ(ended[0].waiter.id, 3);
    EXPECT_EQ(*ended[0].answer, Json(1));
    EXPECT_FALSE(shares.ask_again(ticket, {.id = 4, .user = "ann"})) << "its end was told";
}

}  // namespace
}  // namespace roll::api
