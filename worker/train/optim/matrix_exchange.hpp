// Collects whole matrices from the ranks that share a matrix, for computations that need whole
// matrices. Returns the results to these ranks.
//
// The matrices are divided into batches. A batch has at most one matrix per rank of the
// data-parallel and tensor-parallel groups. In a batch, each of these ranks gets at most one whole
// matrix, so each matrix is computed once. Matrices of about the same size are in the same batch. A
// rank holds the buffers of one batch at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

class MatrixExchange {
  public:
    // `dp`, `tp`: the groups of the ranks that share the parameters; null: there is no such group.
    // `matrices`: indices of the parameters to exchange. `parameters` and the groups must outlive
    // this object.
    MatrixExchange(const Parameters& parameters, std::vector<std::size_t> matrices,
                   Communicator* dp, Communicator* tp);

    // Returns the batches. Each batch lists indices of parameters.
    const std::vector<std::vector<std::size_t>>& batches() const { return batches_; }

    // Calls compute(index, whole) for the batch's matrices. Each matrix is computed on one rank;
    // `compute` changes `whole` in place. `own` holds, in the order of the batch, a tensor with
    // this rank's own rows of each matrix. Replaces these tensors by the same rows of the results.
    // Every rank of the groups must call this function for the same batch.
    using Compute = std::function<void(std::size_t index, const at::Tensor& whole)>;
    void run(std::size_t batch, std::vector<at::Tensor>& own, const Compute& compute);

  private:
    // Returns a zeroed buffer [ranks, size] with one slot per rank of a group.
    at::Tensor slots(int ranks, std::int64_t size) const;
    std::vector<at::Tensor> to_owner(const std::vector<std::size_t>& batch,
                                     const std::vector<at::Tensor>& own, Tag tag) const;
    void compute_wholes(const std::vector<std::size_t>& batch, std::vector<at::Tensor>& parts,
                        Tag tag, const Compute& compute) const;
    std::size_t first_of_rank(int dp_rank) const;

    const Parameters& parameters_;
    Communicator* dp_;
    Communicator* tp_;
    int replicas_, shards_;  // sizes of the groups `dp` and `tp`
    std::vector<std::vector<std::size_t>> batches_;
};

}  // namespace roll::train
