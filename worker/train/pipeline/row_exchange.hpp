// Exchanges rows of parameters between data-parallel ranks that share optimizer state (ZeRO). Each
// rank updates its own rows of every parameter. Therefore, a rank needs the summed gradients of its
// own rows, and the updated weights of all other rows.
//
// The rows of a bucket are sent together. The buffer has one piece for each rank, with a copy of
// the rank's rows. Shorter pieces are padded to the length of the longest piece. At most two
// buckets are exchanged at once, so the buffers stay small.
//
// Updated weights are gathered while the next forward runs, in the order in which forward uses
// them. Before forward uses a weight, await_weights() waits for the gather of its bucket, and
// starts the next gather. Until then, the rows of other ranks have the weights from before the
// update.
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
    // Requires that the ranks of `dp` share `parameters`. Both arguments must outlive this object.
    RowExchange(const Parameters& parameters, std::vector<plan::Bucket> buckets, Communicator& dp);

    // Copies the gradients of a bucket's trained parameters, and starts to sum the copies over the
    // ranks. When finish_sums() returns, the sum has replaced `own_grad`; with staged gradients,
    // the sum was added to `own_grad`.
    void start_sum(int bucket);
    void finish_sums();

    // Starts to copy the weights of all rows from the ranks that own them. Copies only trained
    // parameters whose weight every rank stores completely. This rank's own rows must not change
    // until await_weights() has returned for the last parameter.
    void start_gathers();
    // Returns when all rows of the parameters up to `parameter` have their new weights. All ranks
    // must make these calls in the same order, also relative to other transfers of `dp`.
    void await_weights(int parameter);

  private:
    struct Pending {
        int bucket = 0;
        Communicator::Ticket ticket = 0;
        at::Tensor sent, received;
    };

    // The tensors whose rows are exchanged. Gradients: the gradients of all trained parameters.
    // Weights: the weights of the trained parameters that every rank stores completely.
    enum class Of { Gradients, Weights };

    // Calls body(i, rows) for each parameter `i` of the bucket that takes part in the exchange of
    // gradients or weights (`of`). `rows` are the rows that rank `owner` owns.
    template <class Body>
    void for_rows_of(Of of, int bucket, int owner, const Body& body) const;
    std::vector<std::int64_t> longest_pieces(Of of) const;
    void pack(Of of, int bucket, int owner, const at::Tensor& piece) const;
    void unpack_weights(int bucket, const at::Tensor& piece, int owner) const;
    // returns an uninitialized buffer with one piece for each rank
    at::Tensor buffer(std::int64_t longest, at::ScalarType type) const;
    at::Tensor piece(std::int64_t longest, at::ScalarType type) const;  // a buffer for one piece
    void take_sum();
    void start_next_gathers();

    const Parameters& parameters_;
    std::vector<plan::Bucket> buckets_;
    Communicator& dp_;
    // For each bucket: number of elements of its longest piece
    std::vector<std::int64_t> longest_gradients_, longest_weights_;
    std::deque<Pending> sums_, gathers_;  // exchanges in progress, the oldest first
    int next_gather_ = -1;                // the bucket whose gather starts next; -1: none
};

}  // namespace roll::train
