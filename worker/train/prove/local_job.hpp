// Trains a job whose ranks are threads of this process, on the strict and deterministic fabric of
// comm/local_fabric.hpp. Each rank runs the same TrainStep as in a job of several processes.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "common/spec/train/parallel.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/prove/record.hpp"

namespace roll::train {

// Returns the directory of the checkpoint that save_locally() writes below `root`. Only one
// checkpoint exists at a time.
std::filesystem::path local_checkpoint(const std::filesystem::path& root);

// Writes a checkpoint of the ranks' state below `root`. `parallel`: the layout that the files get.
// `rank`: this rank's number in `world`. All ranks must call this function. Throws RankFailure.
void save_locally(const std::filesystem::path& root, TrainStep& step, const ModelSetup& model,
                  const spec::ParallelSpec& parallel, int rank, Communicator& world);

struct LocalJob {
    spec::ModelConfig config;
    plan::PipelineSchedule schedule;
    int dp = 1, tp = 1, cp = 1;
    TrainOptions options = {};
    LocalOptions fabric = {};
    int steps = 3;       // number of the step after the last one
    int first_step = 0;  // number of the first step
    double lr = 1e-3;
    // Returns the micro-batches of a step of all replicas; the first replica's come first. The step
    // with number `steps` is only for the evaluation.
    std::function<std::vector<Microbatch>(int step)> batch;

    // If `saves_after` is above 0, the ranks write a checkpoint below the directory `saves_to`
    // before the step with number `saves_after`. If `starts_from` is not empty, the ranks take
    // their state from this checkpoint. Otherwise, the ranks start with the initial weights. The
    // files of a checkpoint record `model` and `parallel`.
    int saves_after = 0;
    std::filesystem::path saves_to = {}, starts_from = {};
    const ModelSetup* model = nullptr;
    spec::ParallelSpec parallel = {};
    // Takes a rank's state from `starts_from`; empty: restore() is used. Tests plant bugs here.
    std::function<void(TrainStep& step)> load = {};
    // Divides micro-batches among the ranks of a context-parallel group; empty: context_parts() is
    // used. Tests plant bugs here.
    std::function<std::vector<Microbatch>(std::span<const Microbatch>, const Communicator& cp)>
        divide = {};
    bool evaluates = true;  // false: the job ends after its last step
    // Changes a rank's step before its first use; empty: nothing is changed
    std::function<void(TrainStep& step)> prepare = {};
};

// Trains the job, then evaluates once if LocalJob::evaluates is true. Returns the results and the
// state of all ranks after each step, and the loss of the evaluation. If a rank throws, rethrows
// the first exception.
Record train_locally(const LocalJob& job);

}  // namespace roll::train
