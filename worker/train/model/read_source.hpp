// Reads tensors of an opened checkpoint into tensors of the trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include <ATen/core/Tensor.h>

#include "worker/convert/plan/plan.hpp"
#include "worker/layout/rows.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the type in which weights and states of `parameters` are read.
tensor::DType dtype_of(const Parameters& parameters);

// Plans to read every native tensor whole, in the type `dtype`. Throws RankFailure if a tensor is
// missing.
convert::Plan plan_whole(const convert::Source& source, tensor::DType dtype);

// Calls body(begin, end) for blocks of rows that fit in the cache, in parallel.
void for_blocks(std::int64_t rows, std::int64_t row_bytes,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body);

// Counts bytes that this process has read from the tensors of checkpoints, and returns their number
// since the start of the process. The count does not include the check of the manifest's hashes.
void count_read(std::int64_t bytes);
std::int64_t bytes_read();

// Reads targets of one source. Notes which tensors of the source have been read.
class SourceReader {
  public:
    // `source` must outlive this object.
    explicit SourceReader(const convert::Source& source) : source_(source) {}

    // Reads all rows of `target` into `to`, in parallel. The values are cast to the type of
    // `target`, and `to` must have this type.
    void read_rows(const convert::TargetTensor& target, const at::Tensor& to);

    // Reads the rows `rows` of a parameter of this rank into the same rows of `own`, which has the
    // rank's sizes. `whole`: the whole parameter. Reads no other elements of `whole`. Padding
    // becomes 0.
    void read_part(const convert::TargetTensor& whole, const ParameterSpec& spec,
                   const layout::Rows& rows, const at::Tensor& own);

    // Notes that the caller reads `target`.
    void note(const convert::TargetTensor& target);

    // Compares the tensors that have been read with their replicas in the checkpoint. Throws
    // RankFailure if two replicas differ.
    void compare_replicas(const convert::Plan& plan) const;

  private:
    const convert::Source& source_;
    std::set<std::size_t> read_;  // indices in Source::tensors
};

}  // namespace roll::train
