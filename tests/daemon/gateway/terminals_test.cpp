// Terminals in jobs: how input, output and their limits pass through rolld.
#include "daemon/gateway/terminals.hpp"

#include <gtest/gtest.h>

#include "common/base64.hpp"

namespace roll::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kNow{};
const AttemptKey kAttempt{JobId{7}, Token{3, 1}};

struct Fixture {
    Terminals terminals{100};
    core::State state{};
    std::uint64_t id = 0;

    Fixture() {
        state.jobs[JobId{7}].attempt = core::Attempt{.token = kAttempt.token};
        id = *terminals.open({.user = "ann", .attempt = kAttempt, .worker = WorkerId{1}}, kNow);
        terminals.take_orders();
    }
    void read(std::uint64_t from, int wait_ms = 1000, Instant now = kNow) {
        ASSERT_TRUE(terminals.read("ann", {id, from, wait_ms}, Peer{.route = "r"}, 5, now));
    }
    void hear(std::uint64_t at, std::string output) {
        terminals.hear({.terminal = id, .at = at, .output = std::move(output)});
    }
};

TEST(Terminals, GrantsAsMuchOutputAsTheClientHasRoomFor) {
    Fixture f;
    f.read(0);
    auto orders = f.terminals.take_orders();
    ASSERT_EQ(orders.size(), 1U);
    EXPECT_EQ(orders[0].order.limit, protocol::kTerminalWindow);
    EXPECT_TRUE(f.terminals.take_replies(kNow).empty()) << "there is no output yet";
    f.hear(0, "abc");
    const auto replies = f.terminals.take_replies(kNow);
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].value["chunks"][0]["data"], to_base64("abc"));
    EXPECT_EQ(replies[0].value["end"], 3);
    f.read(3);
    EXPECT_EQ(f.terminals.take_orders()[0].order.limit, 3 + protocol::kTerminalWindow);
    EXPECT_FALSE(f.terminals.read("ann", {f.id, 2, 0}, {}, 6, kNow)) << "it is a part of a chunk";
}

TEST(Terminals, RepeatsOutputUntilTheClientHasIt) {
    Fixture f;
    f.hear(0, "abc");
    for (int i = 0; i < 2; ++i) {
        f.read(0);
        EXPECT_EQ(f.terminals.take_replies(kNow)[0].value["end"], 3);
    }
}

TEST(Terminals, EndsATerminalIfAMessageWasLostOrAWorkerSendsTooMuch) {
    for (const auto& [at, size] : {std::pair(std::uint64_t{1}, std::size_t{1}),
                                   std::pair(std::uint64_t{0}, protocol::kTerminalWindow + 1)}) {
        Fixture f;
        f.hear(at, std::string(size, 'x'));
        EXPECT_TRUE(f.terminals.take_orders()[0].order.close);
        f.read(0);
        EXPECT_EQ(f.terminals.take_replies(kNow)[0].value["trouble"],
                  "output of the program was lost");
    }
}

TEST(Terminals, AcceptsInputOfItsUserWithinTheWindow) {
    Fixture f;
    const std::string much(protocol::kTerminalWindow, 'x');
    EXPECT_TRUE(f.terminals.write("ann", {.terminal = f.id, .data = to_base64(much)}, kNow));
    EXPECT_EQ(f.terminals.take_orders()[0].order.input, much);
    const protocol::ShellWriteArgs more{
        .terminal = f.id, .at = much.size(), .data = to_base64("y")};
    EXPECT_EQ(f.terminals.write("ann", more, kNow).error().code, ErrorCode::Refused);
    f.terminals.hear({.terminal = f.id, .taken = 10});
    EXPECT_EQ(f.terminals.write("ann", more, kNow), 10U);
    EXPECT_EQ(f.terminals.write("ann", more, kNow).error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(f.terminals.write("bob", more, kNow).error().code, ErrorCode::NotFound);
    EXPECT_FALSE(f.terminals.read("bob", {f.id, 0, 0}, {}, 1, kNow));
}

TEST(Terminals, TellsAClientThatItsInputWasTakenWithoutOutput) {
    Fixture f;
    const std::string much(protocol::kTerminalWindow, 'x');
    ASSERT_TRUE(f.terminals.write("ann", {.terminal = f.id, .data = to_base64(much)}, kNow));
    f.read(0);
    f.terminals.hear({.terminal = f.id, .taken = 10});
    EXPECT_TRUE(f.terminals.take_replies(kNow).empty()) << "not for each key";
    f.terminals.hear({.terminal = f.id, .taken = much.size() / 2});
    const auto replies = f.terminals.take_replies(kNow);
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].value["taken"], much.size() / 2);
    f.read(0);
    EXPECT_TRUE(f.terminals.take_replies(kNow).empty()) << "the client knows it";
}

TEST(Terminals, LimitsTheReadersOfATerminal) {
    Fixture f;
    for (int i = 0; i < 4; ++i) f.read(0);
    const auto fifth = f.terminals.read("ann", {f.id, 0, 1000}, {}, 6, kNow);
    ASSERT_FALSE(fifth);
    EXPECT_EQ(fifth.error().code, ErrorCode::Refused);
}

TEST(Terminals, KnowsTheWorkerOfATerminal) {
    const Fixture f;
    EXPECT_EQ(f.terminals.worker_of(f.id), WorkerId{1});
    EXPECT_EQ(f.terminals.worker_of(f.id + 1), WorkerId{});
}

TEST(Terminals, LimitsTheTerminalsOfAUser) {
    Fixture f;
    int opened = 1;
    while (f.terminals.open({.user = "ann"}, kNow)) ++opened;
    EXPECT_EQ(opened, 16);
    EXPECT_TRUE(f.terminals.open({.user = "bob"}, kNow));
}

TEST(Terminals, GivesTheExitStatusOnceAndThenForgets) {
    Fixture f;
    f.terminals.hear({.terminal = f.id, .output = "bye", .exit = 3});
    f.read(0);
    const auto replies = f.terminals.take_replies(kNow);
    EXPECT_EQ(replies[0].value["exit"], 3);
    EXPECT_EQ(replies[0].value["chunks"].size(), 1U);
    EXPECT_FALSE(f.terminals.read("ann", {f.id, 3, 0}, {}, 6, kNow));
    EXPECT_EQ(f.terminals.due(), std::nullopt);
}

TEST(Terminals, AnswersAReadWithoutOutputInTime) {
    Fixture f;
    f.read(0, 1000);
    EXPECT_EQ(f.terminals.due(), kNow + milliseconds(1000));
    EXPECT_TRUE(f.terminals.take_replies(kNow + milliseconds(999)).empty());
    EXPECT_EQ(f.terminals.take_replies(kNow + milliseconds(1000)).size(), 1U);
}

TEST(Terminals, EndsSoonAfterTheAttemptAndForgetsALostClient) {
    Fixture f;
    f.read(0, 60'000);
    f.state.jobs[JobId{7}].attempt->token.attempt = 2;
    f.terminals.tidy(f.state, kNow);
    EXPECT_TRUE(f.terminals.take_replies(kNow).empty()) << "its last output may still arrive";
    f.terminals.tidy(f.state, kNow + seconds(5));
    EXPECT_EQ(f.terminals.take_replies(kNow + seconds(5))[0].value["trouble"],
              "the job's attempt has ended");
    Fixture lost;
    lost.terminals.tidy(lost.state, kNow + seconds(60));
    EXPECT_EQ(lost.terminals.due(), std::nullopt);
}

}  // namespace
}  // namespace roll::gateway
