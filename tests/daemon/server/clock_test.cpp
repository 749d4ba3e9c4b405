// The wall clock of a rolld is set while a job runs, and while rolld is down.
#include "tests/daemon/server/daemon.hpp"

namespace roll {
namespace {

class ShiftedClock : public testing::Test {
  protected:
    ShiftedClock() {
        ::setenv("ROLL_TEST_CLOCK", (daemon.root / "clock").c_str(), 1);
        start();
        worker.emplace(daemon);
        worker->until([](const auto&) { return true; });
    }
    ~ShiftedClock() override { ::unsetenv("ROLL_TEST_CLOCK"); }
    void start() {
        ::setenv("LD_PRELOAD", SHIFTED_CLOCK_LIBRARY, 1);
        daemon.start();
        ::unsetenv("LD_PRELOAD");
    }
    void set_clock(std::chrono::seconds ahead) {
        ASSERT_TRUE(write_file_atomically(daemon.root / "clock", std::to_string(ahead.count())));
    }
    AttemptKey run(std::chrono::seconds limit) {
        Json args = submit_args("key", "x");
        args["spec"]["resources"]["time_seconds"] = limit.count();
        EXPECT_TRUE(daemon.client().ask("submit", args));
        const auto answer = worker->until([](const auto& a) { return !a.start.empty(); });
        worker->report(answer.start.at(0).attempt, protocol::Phase::Running);
        return answer.start.at(0).attempt;
    }
    static bool is_stopped(const protocol::Answer& answer) { return !answer.stop.empty(); }

    Daemon daemon;
    std::optional<FakeWorker> worker;
};

TEST_F(ShiftedClock, EndsNoJobEarlyWhereverItGoes) {
    run(600s);
    const auto kept = [](const auto& answer) { return !answer.keep.empty(); };
    worker->until(kept);
    for (const auto ahead : {3600s, 0s, -3600s, 86400s, 0s}) {
        set_clock(ahead);
        for (int turns = 0; turns < 3; ++turns)
            worker->until([&](const auto& answer) {
                EXPECT_FALSE(is_stopped(answer)) << "the clock is ahead by " << ahead.count();
                return kept(answer) || is_stopped(answer);
            });
    }
}

TEST_F(ShiftedClock, EndsAJobInTimeThoughItGoesBack) {
    const auto begun = std::chrono::steady_clock::now();
    run(2s);
    set_clock(-3600s);
    const auto answer = worker->until([](const auto& a) { return is_stopped(a); });
    EXPECT_EQ(answer.stop.at(0).reason, "reached its time limit");
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 2s);
}

TEST_F(ShiftedClock, ARestartWithAClockThatWentBackLosesNoLimit) {
    run(2s);
    worker->until([](const auto& answer) { return !answer.keep.empty(); });
    daemon.end(SIGKILL);
    set_clock(-3600s);
    start();
    FakeWorker again(daemon);
    again.heartbeat = worker->heartbeat;
    again.heartbeat.sequence += 1000;
    const auto answer = again.until([](const auto& a) { return is_stopped(a); });
    EXPECT_EQ(answer.stop.at(0).reason, "reached its time limit");
}

}  // namespace
}  // namespace roll
