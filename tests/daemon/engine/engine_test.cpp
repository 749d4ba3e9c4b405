#include "daemon/engine/engine.hpp"

#include <array>

#include <gtest/gtest.h>

#include "daemon/engine/clock_watch.hpp"

namespace roll::engine {
namespace {

constexpr Time kNow{std::chrono::hours(1)};

// A ledger in memory. Its volume can be set to full.
struct Memory {
    core::Events rows;
    std::optional<Error> error{};
    int loads = 0;

    core::State load() const {
        core::State state;
        for (const core::Event& event : rows) core::apply(state, event);
        return state;
    }
    Ledger as_ledger() {
        return {[this](std::span<const core::Event> events, Time) -> Result<void> {
                    if (error) return tl::unexpected(*error);
                    rows.insert(rows.end(), events.begin(), events.end());
                    return {};
                },
                [this]() -> Result<core::State> {
                    ++loads;
                    return load();
                }};
    }
};

core::Input submit(const std::string& key) {
    spec::JobSpec spec;
    spec.name = key;
    spec.output = "/runs/{id}";
    return core::Submit{key, "ann", spec};
}

class FullDisk : public testing::Test {
  protected:
    FullDisk() {
        const std::vector<core::Input> begin{core::Started{}, core::WorkerHello{"n", "s", 1, 0},
                                             submit("first")};
        EXPECT_TRUE(engine.step(begin, kNow));
        memory.error = Error{ErrorCode::Refused, "the volume of /x/ledger.db is full", ""};
    }
    Memory memory;
    Engine engine{core::State{}, memory.as_ledger()};
};

TEST_F(FullDisk, RefusesWhatWouldBeLostAndKeepsWhatRuns) {
    const core::State before = engine.state();
    const std::vector<core::Input> inputs{submit("second"), submit("second"), submit("first"),
                                          core::Tick{}};
    const auto turn = engine.step(inputs, kNow);
    ASSERT_TRUE(turn);
    ASSERT_EQ(turn->replies.size(), 4u);
    EXPECT_EQ(turn->replies[0].error().code, ErrorCode::Refused);
    EXPECT_NE(turn->replies[0].error().message.find("ledger.db"), std::string::npos);
    EXPECT_FALSE(turn->replies[1]) << "there is no job that it repeats";
    EXPECT_TRUE(turn->replies[2]) << "its job is in the ledger";
    EXPECT_TRUE(turn->replies[3]);
    EXPECT_EQ(turn->committed, 0u);
    EXPECT_EQ(engine.state(), before);
    EXPECT_EQ(turn->owed.size(), 1u);
}

TEST_F(FullDisk, RecoversWhenSpaceReturns) {
    const std::vector<core::Input> inputs{submit("second")};
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(engine.step(inputs, kNow)->replies[0]);
    EXPECT_EQ(memory.loads, 1) << "the ledger is read once, however long the volume stays full";
    memory.error.reset();
    EXPECT_TRUE(engine.step(inputs, kNow)->replies[0]);
    EXPECT_EQ(engine.state().keys.at("ann").count("second"), 1u);
    EXPECT_EQ(memory.load(), engine.state());
    memory.error = Error{ErrorCode::Refused, "full again", ""};
    const std::vector<core::Input> third{submit("third")};
    EXPECT_FALSE(engine.step(third, kNow)->replies[0]);
    EXPECT_EQ(memory.load(), engine.state());
}

TEST_F(FullDisk, AnyOtherErrorEndsTheTurn) {
    memory.error = Error{ErrorCode::Failed, "I/O error", ""};
    const std::vector<core::Input> inputs{submit("second")};
    EXPECT_FALSE(engine.step(inputs, kNow));
}

TEST(Engine, CommitsATurnAtOnceAndSaysWhatIsOwed) {
    Memory memory;
    Engine engine(core::State{}, memory.as_ledger());
    const std::vector<core::Input> inputs{core::Started{}, core::WorkerHello{"n", "s", 1, 0},
                                          submit("a"), submit("b")};
    const auto turn = engine.step(inputs, kNow);
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->committed, memory.rows.size());
    EXPECT_EQ(memory.load(), engine.state());
    const AttemptKey key{JobId{1}, Token{1, 1}};
    EXPECT_EQ(turn->owed, (std::vector<core::Action>{core::StartMember{WorkerId{1}, key}}));
}

TEST(ClockWatch, TellsAStepUntilItIsSettledAndNoDrift) {
    using namespace std::chrono_literals;
    ClockWatch watch(kNow, 5s);
    EXPECT_EQ(watch.stepped(kNow + 60s, 65s), 0s);
    EXPECT_EQ(watch.stepped(kNow + 60s + 999ms, 65s), 0s);
    EXPECT_EQ(watch.stepped(kNow + 1h + 60s, 65s), 1h);
    EXPECT_EQ(watch.stepped(kNow + 1h + 61s, 66s), 1h) << "as long as it is not in the ledger";
    watch.settle(1h);
    EXPECT_EQ(watch.stepped(kNow + 1h + 62s, 67s), 0s);
    EXPECT_EQ(watch.stepped(kNow - 24h + 62s, 67s), -25h);
    EXPECT_EQ(ClockWatch::step_back(kNow, kNow + 1h), -1h);
    EXPECT_EQ(ClockWatch::step_back(kNow + 1h, kNow), 0s);
}

core::Events hold(const core::State& state, Time) {
    const auto& job = state.jobs.at(JobId{1});
    return job.held ? core::Events{} : core::Events{core::JobHeld{JobId{1}, true}};
}
core::Events release(const core::State& state, Time) {
    const auto& job = state.jobs.at(JobId{1});
    return job.held ? core::Events{core::JobHeld{JobId{1}, false}} : core::Events{};
}

TEST(Rules, ThatContradictEachOtherDoNotSpinForEver) {
    static constexpr std::array kRules = {core::Rule{hold}, core::Rule{release}};
    Memory memory;
    Engine engine(core::State{}, memory.as_ledger(), kRules);
    const std::vector<core::Input> inputs{core::Started{}, submit("a")};
    const auto turn = engine.step(inputs, kNow);
    ASSERT_TRUE(turn);
    EXPECT_TRUE(turn->restless);
    EXPECT_EQ(turn->committed, 2u + 2u * kRoundsMax);
    EXPECT_EQ(memory.load(), engine.state()) << "what they did is committed like all else";
}

TEST(Rules, ThatComeToRestAreNotCutShort) {
    static constexpr std::array kRules = {core::Rule{hold}};
    Memory memory;
    Engine engine(core::State{}, memory.as_ledger(), kRules);
    const std::vector<core::Input> inputs{core::Started{}, submit("a")};
    EXPECT_FALSE(engine.step(inputs, kNow)->restless);
    EXPECT_TRUE(engine.state().jobs.at(JobId{1}).held);
}

}  // namespace
}  // namespace roll::engine
