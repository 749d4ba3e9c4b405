// Reports a training step as a row of the metrics and as a line of the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/process/memory.hpp"
#include "worker/train/report/phases.hpp"

namespace roll::train {

struct StepReport {
    std::int64_t step = 0;  // number of completed steps, including this one
    std::int64_t steps = 0;
    StepResult result;
    int ranks = 1;
    double lr = 0;
    double clipped_share = 0;  // share of the steps so far in which the gradient was clipped
    std::int64_t tokens = 0;   // number of tokens trained since the start of training
    double seconds = 0;
    PhaseReport phases;
    double eta_seconds = 0;
    plan::FlopsPerToken flops;
    double peak_flops = 0;  // peak FLOP/s of all ranks together; 0 if unknown
    ProcessMemory memory;
    std::optional<DeviceMemory> gpu = {};
    // number of samples in the step; 0: all steps have the same number
    std::int64_t batch_size = 0;
    std::optional<double> loss_scale = {};  // factor of the loss in this step; only in fp16
    // number of steps so far that overflowed because of the loss scale
    std::int64_t overflows = 0;
    // number of additional micro-batches per replica that result from train.microbatch_limit
    std::int64_t split = 0;

    // Returns the longest time for which a rank waited for data, in seconds.
    double data_wait_seconds() const { return phases.max[static_cast<std::size_t>(Phase::Data)]; }
    double tokens_per_second() const { return static_cast<double>(result.tokens) / seconds; }
    double tokens_per_second_per_rank() const { return tokens_per_second() / ranks; }
    // Returns the model's FLOP/s as a share of the peak FLOP/s. `flops_per_token` is one of the two
    // numbers in plan::FlopsPerToken.
    double mfu(double flops_per_token) const {
        return tokens_per_second() * flops_per_token / peak_flops;
    }
};

OrderedJson row_of(const StepReport& report);

// Returns the norms of each layer as a row of the metrics: "grad_norm/LAYER", "weight_norm/LAYER"
// and "update_ratio/LAYER". The update ratio is the norm of the update divided by the norm of the
// weights before the update.
OrderedJson row_of(std::int64_t step, const std::vector<LayerNorms>& layers);

std::string duration_text(double seconds);  // returns a duration such as "59s", "1m 20s", "3h 05m"

// Returns the step's line for the log. The columns of all steps' lines are aligned:
// "step   7/300  loss   4.1234  lr    0.003  norm    1.234  clip x0.810 ( 40 % of steps)     6555
// tokens/s, 3278 a rank  ...  mfu  43.1 % causal, ...  wait    0.2 ms  memory    458 MiB, peak
// 470  left 1m 20s". The two values after `clip` are the factor that scaled this step's gradient,
// and the share of the steps so far whose gradient was clipped.
std::string line_of(const StepReport& report);

}  // namespace roll::train
