// roll/state.json holds the training state, except the weights and the optimizer moments. All
// random numbers are functions of the seed and of counters, so these values suffice to resume with
// bitwise equal results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::checkpoint {

inline constexpr const char* kStateFile = "roll/state.json";
inline constexpr const char* kOptimizerFile = "roll/optimizer.safetensors";
// the file that describes the job that wrote the checkpoint
inline constexpr const char* kJobFile = "roll/job.json";

struct Layout {
    int dp = 1;
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int cp = 1;
    int ep = 1;
    friend bool operator==(const Layout&, const Layout&) = default;
};

// The best value so far of a metric. The metric's name is a key of metrics.jsonl.
struct Best {
    std::string metric = "valid_loss";
    std::optional<double> value = std::nullopt;
    // true: higher values are better; nullopt: unknown, in checkpoints of earlier versions
    std::optional<bool> higher = std::nullopt;
    friend bool operator==(const Best&, const Best&) = default;
};

// The dynamic loss scale of a job with precision fp16.
struct LossScale {
    double scale = 1;
    int good_steps = 0;          // consecutive steps without overflow since the scale last changed
    int tolerated = 0;           // number of further overflows that do not lower the scale
    std::int64_t overflows = 0;  // number of steps skipped because of an overflow
    int at_least = 0;            // number of consecutive overflows at the lowest scale
    friend bool operator==(const LossScale&, const LossScale&) = default;
};

// Values of the latest steps. train.on_spike compares the next step with them.
struct RecentSteps {
    std::vector<double> losses, grad_norms;  // values of the latest applied steps, oldest first
    std::int64_t batch_size = 0;             // number of samples of the latest step
    int skipped = 0;  // number of consecutive steps up to the latest one that were not applied
    friend bool operator==(const RecentSteps&, const RecentSteps&) = default;
};

struct State {
    std::int64_t step = 0;  // number of optimizer steps done
    // number of sequences consumed; it is also the index of the sampler's next sequence
    std::int64_t samples = 0;
    std::int64_t tokens = 0;  // training tokens consumed
    std::uint64_t seed = 0;
    std::string dtype;  // the training job's `precision`: "fp32", "fp64", "bf16" or "fp16"
    // parallel layout of the run that wrote the checkpoint; a resumed run may use another layout
    Layout layout;
    // number of tokens in the training data; if the number differs, the data changed
    std::int64_t train_tokens = 0;
    // length of a sequence in tokens; if the length differs, the data changed; 0: unknown
    std::int64_t seq_length = 0;
    // one hash per training file, computed from samples of the file and, if known, from the whole
    // file; empty: unknown
    std::vector<std::string> data;
    // the order of the samples: data.order with its weights and phases; empty: unknown
    std::string order;
    double loss = 0;                   // loss of the last step
    std::optional<double> valid_loss;  // loss of the last validation, in nats per token
    Best best;                         // best value of train.best in any evaluation so far
    std::int64_t best_step = 0;        // step of the best checkpoint
    Best stop;                         // best value of train.early_stop.metric so far
    std::int64_t clipped_steps = 0;    // number of steps whose gradient was clipped
    // number of steps that were not applied because of a spike or a value that is not finite
    std::int64_t skipped_steps = 0;
    // number of consecutive values of stop.metric that were no improvement
    std::int64_t stale_validations = 0;
    std::optional<LossScale> loss_scale;  // set if `dtype` is "fp16"
    std::optional<RecentSteps> recent;    // set if train.on_spike is not "ignore"
    std::vector<std::int64_t> left_out;  // indices of the samples excluded from training, ascending
    friend bool operator==(const State&, const State&) = default;
};

// Sets the metrics of the job. Ignores the values of `best` and `stop`. If the metric or the
// direction of `best` changes, clears the best value and `best_step`. If the metric or the
// direction of `stop` changes, clears the best value and `stale_validations`.
void use_metrics(State& state, const Best& best, const Best& stop);

// Records a value of state.best.metric at state.step. Returns true if it is the best value so far.
// `higher`: true if higher values are better. A value that is not finite is never the best.
bool note_best(State& state, double value, bool higher);

// Records a value of state.stop.metric. Counts it as stale if it is not finite, or is not better
// than the best earlier value by more than `min_delta`.
void note_stop(State& state, double value, bool higher, double min_delta);

std::string encode(const State& state);
Result<State> decode_state(std::string_view json);

}  // namespace roll::checkpoint
