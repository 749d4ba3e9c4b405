// Reads tensors of an opened checkpoint into tensors of the trainer.
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "worker/convert/plan/plan.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the type in which weights and states of `parameters` are read.
tensor::DType dtype_of(const Parameters& parameters);

// Plans to read every native tensor whole, in the type `dtype`. Compares the replicas in the
// checkpoint. Throws RankFailure if a tensor is missing, or if replicas differ.
convert::Plan plan_whole(const convert::Source& source, tensor::DType dtype);

// Calls body(begin, end) for blocks of rows that fit in the cache, in parallel.
void for_blocks(std::int64_t rows, std::int64_t row_bytes,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body);

// Reads all rows of `target` from `source` into `to`, in parallel. The values are cast to the type
// of `target`, and `to` must have this type.
void read_rows(const convert::Source& source, const convert::TargetTensor& target,
               const at::Tensor& to);

}  // namespace roll::train
