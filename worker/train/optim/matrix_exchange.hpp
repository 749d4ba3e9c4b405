// Collects whole matrices from the ranks that share them, for computations that need a whole
// matrix, and returns the results to these ranks.
//
// The matrices are divided into batches of one matrix per rank. In a batch, each rank of the
// replicas' and the tensor-parallel ranks gets one whole matrix, so each matrix is computed once.
// Matrices of about the same size are in the same batch. A rank holds the buffers of one batch at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

class MatrixExchange {
  public:
    // `dp`, `tp`: the groups of the ranks that share the parameters; null: none. `matrices`:
    // indices of the parameters. All must outlive this object.
    MatrixExchange(const Parameters& parameters, std::vector<std::size_t> matrices,
                   Communicator* dp, Communicator* tp);

    // Returns the batches: indices of parameters.
    const std::vector<std::vector<std::size_t>>& batches() const { return batches_; }

    // Replaces tensors of the own rows of a batch's parameters, in the order of the batch, by those
    // of the matrices on which compute(index, whole) has worked. Every rank of the groups must call
    // it for the same batch.
    using Compute = std::function<void(std::size_t index, const at::Tensor& whole)>;
    void run(std::size_t batch, std::vector<at::Tensor>& own, const Compute& compute);

  private:
    // One slot per rank of a group, with room for `size` elements each
    at::Tensor slots(int ranks, std::int64_t size) const;
    std::vector<at::Tensor> to_owner(const std::vector<std::size_t>& batch,
                                     const std::vector<at::Tensor>& own, Tag tag) const;
    void compute_wholes(const std::vector<std::size_t>& batch, std::vector<at::Tensor>& parts,
                        Tag tag, const Compute& compute) const;
    std::size_t first_of_rank(int dp_rank) const;

    const Parameters& parameters_;
    Communicator* dp_;
    Communicator* tp_;
    int replicas_, shards_;  // sizes of the groups
    std::vector<std::vector<std::size_t>> batches_;
};

}  // namespace roll::train
