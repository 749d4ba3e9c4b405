// Exchanges the rows of parameters between the data-parallel ranks that share optimizer state
// (ZeRO). Each rank updates its own rows of every parameter, so it needs the sum of the gradients
// of these rows only, and the updated weights of all others.
//
// A bucket's rows travel together: the rows of each rank are copied to one piece of a buffer. The
// pieces have equal length, that of the longest. At most two buckets are on their way at once, so
// that the buffers stay small.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "worker/plan/buckets.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

class RowExchange {
  public:
    // Requires that `parameters` are shared by the ranks of `dp`. Both must outlive this object.
    RowExchange(const Parameters& parameters, std::vector<plan::Bucket> buckets, Communicator& dp);

    // Starts summing the gradients of a bucket's trained parameters, from a copy. The sum replaces
    // `own_grad`, or is added to it if gradients are staged, at the latest when finish_sums()
    // returns.
    void start_sum(int bucket);
    void finish_sums();

    // Copies the weights of all rows from the ranks that own them.
    void gather_weights();

  private:
    struct Pending {
        int bucket = 0;
        Communicator::Ticket ticket = 0;
        at::Tensor sent, received;
    };

    void pack(int bucket, const std::vector<at::Tensor>& tensors, int owner,
              const at::Tensor& piece) const;
    void unpack_weights(int bucket, const at::Tensor& piece, int owner) const;
    // returns an uninitialized buffer with a piece for each rank
    at::Tensor buffer(int bucket, at::ScalarType type) const;
    void take_sum();

    const Parameters& parameters_;
    std::vector<plan::Bucket> buckets_;
    Communicator& dp_;
    std::vector<std::int64_t> longest_;  // by bucket: number of elements of its longest piece
    std::deque<Pending> pending_;
};

}  // namespace roll::train
