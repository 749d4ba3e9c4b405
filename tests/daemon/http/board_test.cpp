#include "daemon/http/board.hpp"

#include <atomic>
#include <future>
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
    Board board{[this](const std::string& op, const Json& args) { return answer(op, args); }, 1,
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

TEST(Board, AFileThatHangsDoesNotDelayOthers) {
    std::promise<void> hangs, released;
    const auto until = released.get_future().share();
    Board board{[&](const std::string&, const Json& args) -> Result<Json> {
                    if (args.at("output") != "/hangs") return Json("read");
                    hangs.set_value();
                    until.wait();
                    return Json("late");
                },
                16};
    std::jthread waiting([&] { EXPECT_TRUE(board.look("metrics", {{"output", "/hangs"}})); });
    hangs.get_future().wait();
    // Some of these share a lane with the file that hangs, but not all.
    std::atomic<int> read = 0;
    std::vector<std::jthread> others;
    for (int i = 0; i < 64; ++i)
        others.emplace_back([&, i] {
            if (board.look("metrics", {{"output", std::to_string(i)}})) ++read;
        });
    for (int i = 0; i < 10'000 && read < 32; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(read, 32);
    released.set_value();
}

TEST_F(Asked, ThreadsThatAskTheSameAtOnceAskRolldOnce) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([this] { EXPECT_EQ(number("jobs"), 1); });
    threads.clear();
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace roll::http
