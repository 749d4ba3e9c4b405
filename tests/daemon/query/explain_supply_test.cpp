// Does what `explain` suggests about allocation queues, for each state of a queue that makes a job
// wait.
#include "tests/daemon/query/remedies.hpp"

namespace roll::query {
namespace {

TEST_F(Explain, AnOrderThatWouldNotPay) {
    queue.min_percent = 50;
    desk.tell(core::AddQueue{queue});
    EXPECT_EQ(cure_step_by_step(desk.submit(wants(1, 3))),
              "allocation queue gpu requests an allocation only if jobs use at least 50 % of it; "
              "the waiting jobs would use less");
}

TEST_F(Explain, AQueueThatBacksOffAndOneThatGaveUp) {
    desk.tell(core::AddQueue{queue});
    const JobId id = desk.submit(spec);
    const auto refuse = [&] {
        desk.tell(core::OrderAnswered{AllocationId{desk.state.next_allocation - 1}, false, "",
                                      "sbatch: error: Invalid account"});
    };
    refuse();
    EXPECT_NE(only(id).why.find("its last request failed: sbatch: error: Invalid account"),
              std::string::npos)
        << only(id).why;
    carry_out(only(id).remedy);
    EXPECT_EQ(only(id).why, "waits for allocation 2 of queue gpu");
    for (int i = 0; i < 5; ++i) {
        refuse();
        if (!desk.state.queues.at("gpu").paused) desk.pass(1h);
    }
    EXPECT_TRUE(cure_step_by_step(id).starts_with("allocation queue gpu is paused: "));
}

TEST_F(Explain, NoQueueOffersSuchNodes) {
    for (const auto& [wanted, time] :
         {std::pair{wants(1, 1, 1), 0h}, {wants(1, 1), 2h}, {wants(1, 8, 8), 5h}}) {
        desk = Desk{};
        desk.tell(core::AddQueue{queue});
        spec::JobSpec large = wanted;
        large.resources.time = time;
        EXPECT_EQ(cure_step_by_step(desk.submit(large)),
                  "no allocation queue offers large enough nodes for enough time");
    }
}

// Tests each limit by itself, and all at once.
TEST_F(Explain, AGangThatIsWiderThanAQueueEverGives) {
    const auto told = [&](spec::PilotQueue limited, spec::Resources wanted) {
        desk = Desk{};
        limited.name = "gpu";
        queue = limited;
        desk.tell(core::AddQueue{limited});
        spec::JobSpec wide = spec;
        wide.resources = wanted;
        return cure_step_by_step(desk.submit(wide));
    };
    spec::PilotQueue limited = queue;
    limited.max_jobs = 1;
    EXPECT_EQ(told(limited, wants(2, 6).resources),
              "allocation queue gpu provides at most 1 node at once (--max-jobs 1); the job needs "
              "2 from this queue");
    limited = {.name = "gpu", .nodes = 2, .slots = 8, .time = 1h, .max_nodes = 5};
    EXPECT_EQ(told(limited, wants(5, 1).resources),
              "allocation queue gpu provides at most 4 nodes at once (--max-nodes 5); the job "
              "needs 5 from this queue");
    limited = {.name = "gpu", .slots = 8, .gpus = 8, .time = 1h, .max_gpu_hours = 20};
    EXPECT_EQ(
        told(limited, wants(3, 1, 8).resources),
        "allocation queue gpu provides at most 2 nodes at once (--max-gpu-hours 20, of which 0 "
        "are used); the job needs 3 from this queue");
    limited.max_jobs = 2;
    limited.max_nodes = 1;
    EXPECT_EQ(told(limited, wants(3, 1, 8).resources),
              "allocation queue gpu provides at most 1 node at once (--max-jobs 2; --max-nodes 1; "
              "--max-gpu-hours 20, of which 0 are used); the job needs 3 from this queue");
}

TEST_F(Explain, NeitherWhatIsOnOrderNorWhatBacksOffHelpsAGangThatIsTooWide) {
    queue.max_jobs = 1;
    desk.tell(core::AddQueue{queue});
    const JobId first = desk.submit(spec);
    EXPECT_EQ(only(first).why, "waits for allocation 1 of queue gpu");
    const JobId wide = desk.submit(wants(2, 1));
    EXPECT_NE(only(wide).why.find("--max-jobs 1"), std::string::npos) << only(wide).why;
    desk.tell(core::PauseQueue{"gpu", true});
    EXPECT_NE(only(wide).why.find("--max-jobs 1"), std::string::npos) << only(wide).why;
    desk.join("own", 1);
    EXPECT_TRUE(only(wide).why.starts_with("allocation queue gpu is paused")) << "1 is there";
}

TEST_F(Explain, WorkersThatAreOnTheirWay) {
    desk.tell(core::AddQueue{queue});
    const JobId id = desk.submit(spec);
    desk.tell(core::OrderAnswered{AllocationId{1}, true, "s1", ""});
    desk.tell(core::OrderSeen{AllocationId{1}, "s1", core::SlurmPhase::Running, "", desk.now,
                              desk.now + 1h});
    EXPECT_EQ(only(id).why,
              "waits for the workers of allocation 1 of queue gpu, which Slurm has granted");
    expect_cured(id, "allocation");
}

// An allocation could be ordered for the job, but only once another allocation is no longer in use.
TEST_F(Explain, AQueueAtItsLimits) {
    queue.max_jobs = 2;
    queue.slots = 1;
    desk.tell(core::AddQueue{queue});
    const JobId first = desk.submit(spec);
    carry_out(only(first).remedy);
    ASSERT_TRUE(runs(first));
    EXPECT_EQ(cure_step_by_step(desk.submit(wants(2, 1))), "allocation queue gpu is at its limits");
}

}  // namespace
}  // namespace roll::query
