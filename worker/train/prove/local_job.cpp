#include "worker/train/prove/local_job.hpp"

#include <ATen/Parallel.h>

#include "worker/checkpoint/staging.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/model/context.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/part_writer.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

const checkpoint::Name kName{1, {1, 1}};
// Size of the ring buffer in bytes. In most jobs, a rank's part does not fit in the buffer.
// Therefore, the proof also covers the case that a rank waits for the thread that writes the part
// to files.
constexpr std::int64_t kRing = 1 << 14;

// The communication groups of one rank. A group's name begins with the same word (pp, dp, tp, cp)
// as in a job of several processes.
struct RankGroups {
    std::unique_ptr<Communicator> pp, dp, tp, cp, tie, world;
};

RankGroups connect(const LocalJob& job, const plan::Mesh& mesh, LocalFabric& fabric, int rank) {
    const auto group = [&](const std::string& name, const std::vector<int>& ranks) {
        return fabric.group(name + " " + std::to_string(ranks.front()), ranks, rank);
    };
    const std::vector<int> stages = mesh.group(rank, plan::Axis::Pp);
    RankGroups groups{group("pp", stages),
                      group("dp", mesh.replicas(rank)),
                      group("tp", mesh.group(rank, plan::Axis::Tp)),
                      {},
                      {},
                      fabric.world(rank)};
    if (job.cp > 1) groups.cp = group("cp", mesh.group(rank, plan::Axis::Cp));
    const bool at_end = rank == stages.front() || rank == stages.back();
    if (job.config.tied && stages.size() > 1 && at_end)
        groups.tie = group("tie", {stages.front(), stages.back()});
    return groups;
}

void train_rank(const LocalJob& job, const RankGroups& groups, Record& record) {
    TrainStep trainer(job.config, job.schedule,
                      {.pp = *groups.pp,
                       .dp = *groups.dp,
                       .tie = groups.tie.get(),
                       .tp = groups.tp.get(),
                       .world = groups.world.get(),
                       .cp = groups.cp.get()},
                      job.options);
    if (job.prepare) job.prepare(trainer);
    const int microbatches = job.schedule.microbatches;
    const auto own = [&](const std::vector<Microbatch>& batch) {
        const auto replica = static_cast<std::size_t>(groups.dp->rank() / job.cp);
        const auto count = static_cast<std::size_t>(microbatches);
        const auto part = std::span(batch).subspan(replica * count, count);
        if (job.divide) return job.divide(part, *groups.cp);
        return context_parts(part, groups.cp.get());
    };
    if (!job.starts_from.empty()) {
        if (job.load)
            job.load(trainer);
        else
            restore(job.starts_from, trainer, *job.model);
    }
    const auto save_before = [&](int step) {
        if (job.saves_after > 0 && step == job.saves_after)
            save_locally(job.saves_to, trainer, *job.model, job.parallel, groups.world->rank(),
                         *groups.world);
    };
    for (int step = job.first_step; step < job.steps; ++step) {
        save_before(step);
        const std::vector<Microbatch> batch = job.batch(step);
        const StepResult result = trainer.run(own(batch), job.lr, 1, true);
        const std::string prefix = std::to_string(step) + ".";
        note_result(record, prefix, result);
        note_state(record, prefix, trainer);
    }
    save_before(job.steps);
    if (!job.evaluates) return;
    const std::vector<Microbatch> held_out = own(job.batch(job.steps));
    const LossSum valid = trainer.evaluate(held_out, trainer.kl_sum(held_out).kl());
    note_number(record, "valid.loss", valid.loss);
    note_number(record, "valid.tokens", static_cast<double>(valid.tokens));
    if (valid.pairs) note_pairs(record, "valid.", *valid.pairs);
    if (valid.divergence) note_number(record, "valid.divergence", *valid.divergence);
}

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

Record train_locally(const LocalJob& job) {
    const int ranks = job.dp * job.tp * job.cp * job.schedule.pp;
    const plan::Mesh mesh = need(
        plan::Mesh::make({.dp = job.dp, .tp = job.tp, .pp = job.schedule.pp, .cp = job.cp}, ranks));
    LocalFabric fabric(ranks, job.fabric);
    Record record;  // needs no lock, because one rank runs at a time
    fabric.run([&](int rank) {
        const c10::InferenceMode no_autograd;
        at::set_num_threads(1);
        train_rank(job, connect(job, mesh, fabric, rank), record);
    });
    return record;
}

}  // namespace roll::train
