#include "daemon/http/board.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace roll::http {
namespace {

using namespace std::chrono_literals;

class Asked : public ::testing::Test {
  protected:
    Result<Json> answer(const std::string& op, const Json& args) {
        ++asked;
        if (fails) return fail(ErrorCode::Unavailable, "rolld does not run");
        return Json{{"op", op}, {"args", args}, {"number", asked}};
    }
    int asked = 0;
    bool fails = false;
    Instant now{};
    Board board{[this](const std::string& op, const Json& args) { return answer(op, args); },
                [this] { return now; }};
    int number(const char* op, const Json& args = Json::object()) {
        return board.look(op, args).value()->json.at("number").get<int>();
    }
};

TEST_F(Asked, AnAnswerIsKeptForASecond) {
    EXPECT_EQ(number("jobs"), 1);
    now += 900ms;
    EXPECT_EQ(number("jobs"), 1);
    EXPECT_EQ(number("nodes"), 2) << "another question";
    EXPECT_EQ(number("jobs", {{"limit", 1}}), 3) << "other arguments";
    now += 200ms;
    EXPECT_EQ(number("jobs"), 4);
}

TEST_F(Asked, AnErrorIsKeptTooAndThenAskedAgain) {
    fails = true;
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(board.look("jobs", Json::object()));
    EXPECT_EQ(asked, 1);
    fails = false;
    now += 1100ms;
    EXPECT_EQ(number("jobs"), 2);
}

TEST_F(Asked, AChangeForgetsOldAnswers) {
    EXPECT_EQ(number("jobs"), 1);
    EXPECT_TRUE(board.change("cancel", {{"selector", "1"}}));
    EXPECT_EQ(number("jobs"), 3);
}

TEST_F(Asked, TheNumberOfAnswersIsLimited) {
    for (std::size_t i = 0; i < 3 * Board::kAnswersMax; ++i) {
        now += 1us;
        EXPECT_TRUE(board.look("show", {{"id", i}}));
    }
    const int before = asked;
    EXPECT_TRUE(board.look("show", {{"id", 3 * Board::kAnswersMax - 1}}));
    EXPECT_EQ(asked, before) << "the newest answer is kept";
    EXPECT_TRUE(board.look("show", {{"id", 0}}));
    EXPECT_EQ(asked, before + 1) << "the oldest answer is forgotten";
}

TEST_F(Asked, ThreadsThatAskTheSameAtOnceAskRolldOnce) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([this] { EXPECT_EQ(number("jobs"), 1); });
    threads.clear();
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace roll::http
