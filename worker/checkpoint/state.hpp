// roll/state.json: where training stands, besides weights and moments. Everything random is a
// function of the seed and of counters, so these few numbers are all that a bitwise resume needs.
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
inline constexpr const char* kJobFile = "roll/job.json";  // the job that wrote it

struct Layout {
    int dp = 1;
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int cp = 1;
    int ep = 1;
    friend bool operator==(const Layout&, const Layout&) = default;
};

struct State {
    std::int64_t step = 0;     // optimizer steps done
    std::int64_t samples = 0;  // sequences consumed: the sampler's next index
    std::int64_t tokens = 0;   // tokens consumed
    std::uint64_t seed = 0;
    std::string dtype;                      // train.precision: "fp32", "fp64", "bf16"
    Layout layout;                          // that wrote it; another may read it
    std::int64_t train_tokens = 0;          // of the corpus: another number means other data
    std::int64_t seq_length = 0;            // likewise; 0: not said
    std::vector<std::string> data;          // likewise, of each training file: the hash of samples
                                            // and, if it is known, of all; empty: not said
    double loss = 0;                        // of the last step
    std::optional<double> valid_loss;       // the last validation's, nats a token
    std::optional<double> best_valid_loss;  // the lowest so far
    std::int64_t best_step = 0;
    std::int64_t clipped_steps = 0;      // whose gradient was cut to the largest norm
    std::int64_t stale_validations = 0;  // in a row that were no better than the best before
    std::vector<std::int64_t> left_out;  // samples that are not trained on, ascending
    friend bool operator==(const State&, const State&) = default;
};

// Counts a validation; whether its loss is the lowest so far. A lowest one that is so by less than
// min_delta (0: by any amount) still counts as stale; a loss that is not finite is stale.
bool note_validation(State& state, double loss, double min_delta);

std::string encode(const State& state);
Result<State> decode_state(std::string_view json);

}  // namespace roll::checkpoint
