#include "daemon/dispatch/dispatch.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/core/desk.hpp"

namespace roll::dispatch {
namespace {

using core::Desk;

constexpr const char* kCluster = "c1";

std::map<WorkerId, protocol::Answer> orders_of(const Desk& desk) {
    const auto owed = core::actions(desk.state);
    return orders(desk.state, owed, kCluster);
}

spec::JobSpec train(int nodes, int slots) {
    spec::JobSpec spec = core::wants(nodes, slots);
    spec.kind = spec::JobKind::Train;
    spec.document = R"({"name":"x"})";
    return spec;
}

protocol::RunningAttempt entry(const AttemptKey& key, protocol::Phase phase) {
    protocol::RunningAttempt running;
    running.attempt = key;
    running.phase = phase;
    return running;
}

TEST(Dispatch, AnAttemptReadsTheVariantThatItWasGiven) {
    Desk desk;
    desk.join("a", 2, 1);
    spec::JobSpec spec = core::wants(1, 1, 1);
    spec.resources.gpus_per_node = 4;
    spec.variants = {core::wants(1, 1, 1).resources};
    spec.variants[0].gpu_percent = 50;
    spec.document = R"({"resources": {"gpus_per_node": 4, "variants": [{"gpus_per_node": 0.5}]}})";
    desk.submit(spec);
    const protocol::StartOrder order = orders_of(desk).begin()->second.start.at(0);
    EXPECT_EQ(order.document, R"({"resources":{"gpus_per_node":0.5}})");
    EXPECT_EQ(order.gpu_percent, 50);
    EXPECT_EQ(order.ranks_per_node, 1);
}

TEST(Dispatch, ASpareGetsNoOrderAndIsNoNodeOfTheGang) {
    Desk desk;
    desk.join("a", 1);
    desk.join("b", 1);
    spec::JobSpec spec = train(1, 1);
    spec.resources.spares = 1;
    desk.submit(spec);
    const auto all = orders_of(desk);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all.begin()->second.start.at(0).nodes, 1);
}

TEST(Dispatch, AGangGetsOneOrderAMemberWithItsPlace) {
    Desk desk;
    desk.join("a", 2);
    desk.join("b", 2);
    spec::JobSpec spec = train(2, 2);
    spec.resources.time = std::chrono::seconds(90);
    const JobId id = desk.submit(spec);
    const auto all = orders_of(desk);
    ASSERT_EQ(all.size(), 2u);
    std::set<int> ranks;
    for (const auto& [worker, answer] : all) {
        ASSERT_EQ(answer.start.size(), 1u);
        const protocol::StartOrder& order = answer.start[0];
        ranks.insert(order.node_rank);
        EXPECT_EQ(desk.worker_of(id, static_cast<std::size_t>(order.node_rank)), worker);
        EXPECT_EQ(order.attempt, desk.attempt(id));
        EXPECT_EQ(order.kind, "train");
        EXPECT_EQ(order.document, R"({"name":"x"})");
        EXPECT_EQ(order.output, "/runs/x-1");
        EXPECT_EQ(order.nodes, 2);
        EXPECT_TRUE(order.adds_cpu_times);
        EXPECT_EQ(order.ranks_per_node, 2);
        EXPECT_EQ(order.slots, (std::vector<int>{0, 1}));
        EXPECT_EQ(order.time_limit_seconds, 90);
        EXPECT_EQ(order.hang_after_seconds, -1) << "learned";
    }
    EXPECT_EQ(ranks, (std::set<int>{0, 1}));
}

TEST(Dispatch, AGangOfACommandIsToldItsNodesInTheOrderOfTheirRanks) {
    Desk desk;
    for (const char* node : {"a", "b", "c"}) desk.join(node, 2);
    spec::JobSpec spec = core::wants(2, 2);
    spec.resources.tasks_per_node = 2;
    spec.resources.spares = 1;
    desk.submit(spec);
    const auto all = orders_of(desk);
    ASSERT_EQ(all.size(), 2u);
    for (const auto& [worker, answer] : all) {
        const protocol::StartOrder& order = answer.start.at(0);
        EXPECT_EQ(order.tasks_per_node, 2);
        ASSERT_EQ(order.hosts.size(), 2u) << "a spare is no node of the gang";
        EXPECT_EQ(order.hosts[static_cast<std::size_t>(order.node_rank)],
                  desk.state.workers.at(worker).node);
        EXPECT_FALSE(order.slurm_variables);
    }
    spec::Policy policy;
    policy.gang_slurm_variables = true;
    desk.tell(core::SetPolicy{policy});
    for (const auto& [worker, answer] : orders_of(desk))
        EXPECT_TRUE(answer.start.at(0).slurm_variables);
}

TEST(Dispatch, TheNonceIsThatOfTheAttemptAndOfTheCluster) {
    Desk desk;
    desk.join("a", 2);
    desk.join("b", 2);
    desk.submit(train(2, 2));
    std::set<std::string> nonces;
    for (const auto& [worker, answer] : orders_of(desk)) nonces.insert(answer.start[0].nonce);
    EXPECT_EQ(nonces.size(), 1u) << "members of a gang must meet";
    const auto again = orders_of(desk);
    EXPECT_TRUE(nonces.contains(again.begin()->second.start[0].nonce));
    const auto owed = core::actions(desk.state);
    const auto other = orders(desk.state, owed, "c2");
    EXPECT_FALSE(nonces.contains(other.begin()->second.start[0].nonce));
}

TEST(Dispatch, StartsFromTheNewestCheckpointsItsOwnBeforeItsSources) {
    Desk desk;
    const WorkerId worker = desk.join("a", 1);
    const JobId source = desk.submit(train(1, 1));
    const AttemptKey first = desk.attempt(source);
    desk.tell(core::MemberStarted{worker, first});
    for (const std::int64_t step : {10, 20})
        desk.tell(core::CheckpointWritten{worker, first, step, "/s/" + std::to_string(step)});
    desk.exit(source, core::Outcome::Done);
    spec::JobSpec spec = train(1, 1);
    spec.kind = spec::JobKind::Resume;
    spec.source_job = source;
    const JobId id = desk.submit(spec);
    desk.tell(core::CheckpointWritten{worker, desk.attempt(id), 30, "/r/30"});
    desk.exit(id, core::Outcome::Yielded);
    const auto all = orders_of(desk);
    ASSERT_EQ(all.at(worker).start.size(), 1u);
    std::vector<std::string> directories;
    for (const auto& checkpoint : all.at(worker).start[0].checkpoints)
        directories.push_back(checkpoint.directory);
    EXPECT_EQ(directories, (std::vector<std::string>{"/r/30", "/s/20", "/s/10"}));
}

TEST(Dispatch, WhatIsUpIsKeptAndWhatIsCancelledStopsWithoutSaving) {
    Desk desk;
    const WorkerId worker = desk.join("a", 1);
    const JobId id = desk.submit(train(1, 1));
    desk.tell(core::MemberStarted{worker, desk.attempt(id)});
    auto answer = orders_of(desk).at(worker);
    EXPECT_EQ(answer.keep, std::vector<AttemptKey>{desk.attempt(id)});
    EXPECT_TRUE(answer.start.empty());
    desk.tell(core::Cancel{id, "enough"});
    answer = orders_of(desk).at(worker);
    ASSERT_EQ(answer.stop.size(), 1u);
    EXPECT_EQ(answer.stop[0].reason, "cancelled: enough");
    EXPECT_FALSE(answer.stop[0].checkpoint);
    EXPECT_TRUE(answer.keep.empty());
}

TEST(Dispatch, AtItsTimeLimitAJobSavesIfItTrains) {
    for (const bool trains : {true, false}) {
        Desk desk;
        const WorkerId worker = desk.join("a", 1);
        spec::JobSpec spec = train(1, 1);
        if (!trains) spec.kind = spec::JobKind::Command;
        spec.resources.time = std::chrono::seconds(60);
        const JobId id = desk.submit(spec);
        desk.tell(core::MemberStarted{worker, desk.attempt(id)});
        desk.pass(std::chrono::seconds(61));
        const auto answer = orders_of(desk).at(worker);
        ASSERT_EQ(answer.stop.size(), 1u);
        EXPECT_EQ(answer.stop[0].checkpoint, trains);
    }
}

TEST(Dispatch, ARequestIsRepeatedUntilItsAnswerIsRecorded) {
    Desk desk;
    const WorkerId worker = desk.join("a", 1);
    const JobId id = desk.submit(train(1, 1));
    const AttemptKey key = desk.attempt(id);
    desk.tell(core::MemberStarted{worker, key});
    desk.tell(core::AskTraining{id, RequestKind::StopAtStep, 9});
    desk.tell(core::AskTraining{id, RequestKind::Evaluate});
    const TrainingRequest first{1, RequestKind::StopAtStep, 9}, second{2, RequestKind::Evaluate};
    EXPECT_EQ(orders_of(desk).at(worker).tell,
              (std::vector<protocol::TellOrder>{{key, first}, {key, second}}));
    desk.tell(core::RequestDone{worker, key, {1, 4, 9, "x"}});
    EXPECT_EQ(orders_of(desk).at(worker).tell, (std::vector<protocol::TellOrder>{{key, second}}));
    protocol::Answer answer;
    const std::vector running = {entry(key, protocol::Phase::Running)};
    add_verdicts(desk.state, worker, running, answer);
    ASSERT_EQ(answer.recorded.size(), 1u);
    EXPECT_EQ(answer.recorded[0].answered, 1u);
    desk.exit(id, core::Outcome::Yielded);
    const auto next = orders_of(desk).at(worker);
    ASSERT_EQ(next.start.size(), 1u);
    EXPECT_EQ(next.start[0].stop_step, 9);
    EXPECT_TRUE(next.tell.empty());
}

TEST(Dispatch, WhatIsNotCurrentIsFencedUnlessItHasEnded) {
    Desk desk;
    const WorkerId worker = desk.join("a", 1);
    const JobId id = desk.submit(train(1, 1));
    const AttemptKey current = desk.attempt(id);
    const AttemptKey stale{id, {0, 1}};
    const AttemptKey unknown{JobId{99}, {1, 1}};
    const std::vector running = {entry(current, protocol::Phase::Running),
                                 entry(stale, protocol::Phase::Running),
                                 entry(unknown, protocol::Phase::Ended)};
    protocol::Answer answer;
    add_verdicts(desk.state, worker, running, answer);
    EXPECT_EQ(answer.fenced, std::vector<AttemptKey>{stale});
    answer = {};
    add_verdicts(desk.state, WorkerId{77}, running, answer);
    EXPECT_EQ(answer.fenced, (std::vector<AttemptKey>{current, stale}))
        << "current, but not on this worker";
}

TEST(Dispatch, RecordedNamesTheCheckpointsOfThatAttemptAlone) {
    Desk desk;
    const WorkerId worker = desk.join("a", 1);
    const JobId id = desk.submit(train(1, 1));
    const AttemptKey first = desk.attempt(id);
    desk.tell(core::CheckpointWritten{worker, first, 10, "/c/10"});
    desk.exit(id, core::Outcome::Yielded);
    const AttemptKey second = desk.attempt(id);
    ASSERT_NE(first, second);
    desk.tell(core::CheckpointWritten{worker, second, 20, "/c/20"});
    protocol::Answer answer;
    const std::vector running = {entry(second, protocol::Phase::Running)};
    add_verdicts(desk.state, worker, running, answer);
    ASSERT_EQ(answer.recorded.size(), 1u);
    EXPECT_EQ(answer.recorded[0].steps, std::vector<std::int64_t>{20});
    EXPECT_FALSE(answer.recorded[0].exported);
    EXPECT_EQ(answer.recorded[0].export_step, 0);
    desk.tell(core::ExportWritten{worker, second, "/e/20", 20, 20});
    protocol::Answer later;
    add_verdicts(desk.state, worker, running, later);
    EXPECT_EQ(later.recorded.at(0).export_step, 20);
}

protocol::StartOrder order_of(std::uint64_t job, std::size_t bytes) {
    protocol::StartOrder order;
    order.attempt = {JobId{job}, Token{1, 1}};
    // Each quote is one byte of the document, and two bytes of the frame.
    order.document = std::string(bytes, '"');
    return order;
}

std::set<AttemptKey> named(const protocol::Answer& answer) {
    std::set<AttemptKey> all(answer.keep.begin(), answer.keep.end());
    for (const auto& order : answer.start) all.insert(order.attempt);
    for (const auto& order : answer.stop) all.insert(order.attempt);
    return all;
}

TEST(Frames, StartOrdersAreSplitAndEachFrameNamesAllAttempts) {
    protocol::Answer answer;
    answer.sequence = 7;
    answer.keep = {{JobId{90}, Token{1, 1}}};
    answer.stop.push_back({{JobId{91}, Token{1, 1}}, "asked", false, 0});
    for (std::uint64_t job = 1; job <= 9; ++job) answer.start.push_back(order_of(job, 1000));
    EXPECT_EQ(frames(answer, 1 << 20).size(), 1u);
    const std::vector<std::string> all = frames(answer, 8000);
    ASSERT_GT(all.size(), 2u);
    std::vector<std::uint64_t> started;
    for (const std::string& frame : all) {
        EXPECT_LE(frame.size(), 8000u);
        const auto part = protocol::decode_answer(frame);
        ASSERT_TRUE(part) << part.error().message;
        EXPECT_EQ(part->sequence, 7u);
        EXPECT_EQ(part->stop.empty(), &frame != &all.front()) << "stopped once";
        EXPECT_EQ(named(*part), named(answer));
        for (const auto& order : part->start) {
            EXPECT_TRUE(order.refused.empty());
            started.push_back(order.attempt.job.value);
        }
    }
    EXPECT_EQ(started, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Frames, AnOrderThatFitsIntoNoneIsRefusedAndTheOthersGoOut) {
    protocol::Answer answer;
    answer.start = {order_of(1, 100), order_of(2, 9000), order_of(3, 100)};
    std::size_t orders = 0;
    for (const std::string& frame : frames(answer, 8000)) {
        EXPECT_LE(frame.size(), 8000u);
        const auto part = protocol::decode_answer(frame);
        ASSERT_TRUE(part) << part.error().message;
        for (const auto& order : part->start) {
            ++orders;
            const bool large = order.attempt.job == JobId{2};
            EXPECT_EQ(order.refused.find("accepts at most 8000") != std::string::npos, large);
        }
    }
    EXPECT_EQ(orders, 3u);
}

TEST(Frames, ALongReasonDoesNotKeepAStopFromItsWorker) {
    Desk desk;
    desk.join("a", 1);
    const JobId id = desk.submit(core::wants(1, 1));
    desk.tell(core::Cancel{id, std::string(6 << 20, 'x')});
    const auto all = orders_of(desk);
    EXPECT_LT(all.begin()->second.stop.at(0).reason.size(), 2000u);
}

}  // namespace
}  // namespace roll::dispatch
