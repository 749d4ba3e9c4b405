#include <cmath>
#include <filesystem>
#include <fstream>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "common/spec/schema/array.hpp"
#include "daemon/sweeps/watch.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::sweeps {
namespace {

using namespace std::chrono_literals;

class Sweeps : public ::testing::Test {
  protected:
    void write(const std::string& text, const std::string& trial = "0",
               std::ios::openmode mode = std::ios::app) const {
        std::filesystem::create_directories(folder / trial);
        std::ofstream(folder / trial / "metrics.jsonl", mode) << text;
    }
    Cursor cursor(const std::string& metric = "loss") const {
        return Cursor(folder / "0" / "metrics.jsonl", metric, {10, 30});
    }

    TemporaryFolder folder;
};

TEST_F(Sweeps, ARungHasTheLastValueUpToItsStep) {
    Cursor loss = cursor();
    EXPECT_TRUE(loss.read_on());  // no file yet
    write("{\"step\": 9, \"loss\": 5}\n{\"text\": \"x\"}\n{\"step\": 10, \"lo");
    loss.read_on();
    EXPECT_EQ(loss.values(), (spec::RungValues{std::nullopt, std::nullopt}));
    write("ss\": 4}\n{\"step\": 12, \"loss\": 3}\n");
    loss.read_on();
    EXPECT_EQ(loss.values()[0], 4);
    write("{\"step\": 29, \"loss\": null}\n{\"step\": 31, \"loss\": 1}\n");
    loss.read_on();
    EXPECT_TRUE(std::isnan(*loss.values()[1]));
}

TEST_F(Sweeps, AMetricOfSomeStepsCountsUntilItsNextValue) {
    Cursor valid = cursor("valid_loss");
    write("{\"step\": 8, \"valid_loss\": 7}\n{\"step\": 10, \"loss\": 1}\n");
    valid.read_on();
    EXPECT_EQ(valid.values()[0], std::nullopt);  // the value of step 10 may still follow
    write("{\"step\": 10, \"valid_loss\": 6}\n{\"step\": 40, \"loss\": 1}\n");
    valid.read_on();
    EXPECT_EQ(valid.values(), (spec::RungValues{6, 6}));
}

TEST_F(Sweeps, ARungWithoutAValueTakesTheFirstOneAfterIt) {
    Cursor valid = cursor("valid_loss");
    write("{\"step\": 20, \"loss\": 1}\n");
    valid.read_on();
    EXPECT_EQ(valid.values()[0], std::nullopt);
    write("{\"step\": 25, \"valid_loss\": 2}\n");
    valid.read_on();
    EXPECT_EQ(valid.values(), (spec::RungValues{2, std::nullopt}));
}

TEST_F(Sweeps, AFileThatBeginsAgainIsReadFromItsBeginning) {
    Cursor loss = cursor();
    write("{\"step\": 5, \"loss\": 9, \"padding\": \"----------------------------\"}\n");
    loss.read_on();
    write("{\"step\": 10, \"loss\": 8}\n", "0", std::ios::trunc);
    loss.read_on();
    EXPECT_EQ(loss.values()[0], 8);
}

// Three trials with halving at step 10, of which one goes on.
core::State three_trials(const std::filesystem::path& folder) {
    core::State state;
    for (std::uint64_t i = 0; i < 3; ++i) {
        core::Job job;
        job.spec.array = spec::Array{"0-2", 0, static_cast<int>(i)};
        job.spec.output = folder / std::to_string(i);
        job.spec.document =
            Json{{"sweep", {{"halving", {{"min_steps", 10}, {"reduction", 3}}}}}}.dump();
        job.array = JobId{7};
        job.phase = core::JobPhase::Running;
        job.attempts = 1;
        state.jobs[JobId{7 + i}] = job;
    }
    return state;
}

TEST_F(Sweeps, TheWatchNamesTrialsThatCannotBeTheBest) {
    core::State state = three_trials(folder);
    boost::asio::io_context io;
    const auto work = boost::asio::make_work_guard(io);  // the thread's answer is no work yet
    std::vector<Loser> stopped;
    Watch watch(
        io, state,
        [&](std::vector<Loser> losers) {
            stopped = std::move(losers);
            io.stop();
        },
        5ms);
    EXPECT_EQ(watch.count(), 1u);
    write("{\"step\": 10, \"loss\": 3}\n", "0");
    io.run_for(100ms);
    EXPECT_TRUE(stopped.empty());
    write("{\"step\": 10, \"loss\": 2}\n", "1");
    io.restart();
    io.run_for(5s);
    ASSERT_EQ(stopped.size(), 1u);
    EXPECT_EQ(stopped[0].job, JobId{7});
    EXPECT_EQ(
        stopped[0].reason,
        "stopped by halving at step 10: loss 3 puts the trial in place 2, but only the best 1 "
        "trial continues");
}

TEST_F(Sweeps, TheWatchForgetsASweepThatHasEnded) {
    core::State state = three_trials(folder);
    for (auto& [id, job] : state.jobs) job.phase = core::JobPhase::Done;
    boost::asio::io_context io;
    Watch watch(
        io, state, [](const auto&) { FAIL(); }, 1ms);
    io.run_for(1s);
    EXPECT_EQ(watch.count(), 0u);
}

}  // namespace
}  // namespace roll::sweeps
