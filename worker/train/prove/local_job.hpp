// Trains a job whose ranks are threads of this process, on the strict and deterministic fabric of
// comm/local_fabric.hpp. Each rank runs the same TrainStep as in a job of several processes.
#pragma once

#include <functional>
#include <vector>

#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/prove/record.hpp"

namespace roll::train {

struct LocalJob {
    spec::ModelConfig config;
    plan::PipelineSchedule schedule;
    int dp = 1, tp = 1;
    TrainOptions options = {};
    LocalOptions fabric = {};
    int steps = 3;
    double lr = 1e-3;
    // Returns the micro-batches of a step of all replicas; the first replica's come first. The step
    // with number `steps` is only for the evaluation.
    std::function<std::vector<Microbatch>(int step)> batch;
};

// Trains the job, then evaluates once. Returns the results and the state of all ranks after each
// step, and the loss of the evaluation. If a rank throws, rethrows the first exception.
Record train_locally(const LocalJob& job);

}  // namespace roll::train
