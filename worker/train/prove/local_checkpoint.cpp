#include "worker/train/prove/local_checkpoint.hpp"

#include "worker/checkpoint/staging.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/part_writer.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

const checkpoint::Name kName{1, {1, 1}};
// Size of the ring buffer in bytes. The buffer is smaller than a rank's part in most jobs, so that
// the writer also waits for its thread.
constexpr std::int64_t kRing = 1 << 14;

}  // namespace

fs::path local_checkpoint(const fs::path& root) { return root / checkpoint::staged_name(kName); }

void save_locally(const fs::path& root, TrainStep& step, const ModelSetup& model,
                  const spec::ParallelSpec& parallel, int rank, Communicator& world) {
    if (rank == 0) need(checkpoint::begin_stage(root, kName));
    barrier(world);
    const formats::McaLayout layout = mca_layout_of(parallel, model.config, step.schedule());
    PartWriter writer(step, model, plan_part(step, layout, rank), rank, kRing);
    writer.start(local_checkpoint(root), kName);
    writer.wait();
    need(writer.take());
    barrier(world);
    if (rank == 0)
        need(checkpoint::seal_parts(root, kName, world.size(), [&](const fs::path& directory) {
            checkpoint::State state;
            state.step = kName.step;
            state.dtype = "fp64";
            return write_head_files(directory, model, layout, state, "{}");
        }));
    barrier(world);
}

}  // namespace roll::train
