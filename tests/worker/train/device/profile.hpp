// Measures which parts of a training step take how much time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "common/spec/train/model.hpp"

namespace roll::train {

struct Cost {
    std::string name;
    double seconds = 0;  // in one step
};

// Seconds of one step. `host` is the time in which the device waits for the host; nullopt if
// unknown.
struct Profile {
    std::string method;
    double products = 0;
    double attention = 0;
    double other = 0;
    std::optional<double> host = std::nullopt;
    std::vector<Cost> costs = {};  // the largest first
};

enum class Work { Product, Attention, Other };

// Returns the kind of work of a GPU kernel, told by the names that cuBLAS, CUTLASS and PyTorch use.
Work work_of(std::string_view kernel);

struct Interval {
    std::int64_t begin = 0, end = 0;
};
// Returns the length of the union of the intervals.
std::int64_t covered(std::vector<Interval> intervals);

// Runs `step` several times and records the GPU's kernels through CUPTI. Returns nullopt if no
// kernel was recorded, as on a CPU or where CUPTI may not be used.
std::optional<Profile> profile_kernels(const std::function<void()>& step, int steps);

// Times products and attention of a model alone, at the sizes that a micro-batch gives them, and
// counts them per layer. Everything else of `step_seconds` is `other`.
Profile profile_operators(const spec::ModelConfig& model, std::int64_t batch,
                          std::int64_t positions, const at::TensorOptions& options,
                          double step_seconds);

}  // namespace roll::train
