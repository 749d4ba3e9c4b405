// Tests that a fault of one rank does not stop the other ranks. `rank_test` tests faults of jobs.
#include "worker/train/job/faults.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/worker/train/pipeline/world.hpp"
#include "worker/plan/mesh.hpp"

namespace roll::train {
namespace {

// With ZeRO-1, the weights of step 2 are still being gathered when the fault changes a weight.
TEST(Faults, AChangedWeightMakesAllReplicasWaitForTheirWeights) {
    const std::vector<spec::FaultSpec> faults = {
        {.rank = 1, .step = 3, .kind = spec::FaultKind::Nan}};
    const plan::Mesh mesh = plan::Mesh::make({.dp = 2, .tp = 2}, 4).value();
    LocalFabric fabric(4, {.seed = 1});
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const c10::InferenceMode no_autograd;
        const auto group = [&](const char* name, plan::Axis axis) {
            const std::vector<int> ranks = mesh.group(rank, axis);
            return fabric.group(name + std::to_string(ranks.front()), ranks, rank);
        };
        const auto pp = group("pp", plan::Axis::Pp), dp = group("dp", plan::Axis::Dp),
                   tp = group("tp", plan::Axis::Tp), world = fabric.world(rank);
        int number = 0;
        TrainStep* made = nullptr;
        const auto at_phase = [&](spec::FaultPhase phase) {
            inject_faults(faults, rank, number, phase, *made);
        };
        const plan::PipelineSchedule schedule = plan::gpipe(1, 1, 2);
        TrainStep step(
            split_model(false), schedule,
            {.pp = *pp, .dp = *dp, .tp = tp.get(), .at_phase = at_phase, .world = world.get()},
            {.init = {.dtype = at::kDouble}, .zero = 1, .bucket_numel = 200});
        made = &step;
        for (number = 1; number <= 3; ++number) {
            const std::vector<Microbatch> all = tiny_batch(number, 4);
            const int first = 2 * dp->rank();
            const StepResult result =
                step.run({all.begin() + first, all.begin() + first + 2}, 1e-2);
            EXPECT_EQ(std::isfinite(result.loss), number < 3);
        }
    });
}

}  // namespace
}  // namespace roll::train
