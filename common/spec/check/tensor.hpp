// Checks that a job's tensor parallelism fits its model. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/schema/problem.hpp"
#include "common/spec/train/model.hpp"
#include "common/spec/train/parallel.hpp"

namespace roll::spec {

// The sizes that parallel.tp must divide. A size that is nullopt is unknown and not checked.
struct TensorSizes {
    std::optional<std::int64_t> heads = std::nullopt;
    std::optional<std::int64_t> kv_heads = std::nullopt;
    std::optional<std::int64_t> intermediate = std::nullopt;
};

TensorSizes tensor_sizes(const ModelConfig& model);

// Returns a problem for each rule that tensor parallelism breaks, with the numbers and the allowed
// values. The size of the vocabulary is not checked, because tp need not divide the vocabulary.
std::vector<Problem> tensor_problems(const ParallelSpec& parallel, const TensorSizes& sizes);

// Returns a warning if the ranks of a tensor-parallel group are on several nodes; empty if each
// group is on one node. The ranks are divided evenly between `nodes`, in order. `sent`: the bytes
// that a rank sends to its group in one step, as text; empty if unknown.
std::string tensor_span_warning(const ParallelSpec& parallel, int nodes, const std::string& sent);

}  // namespace roll::spec
