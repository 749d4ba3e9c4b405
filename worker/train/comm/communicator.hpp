// A group of ranks and the operations between them.
//
// Every rank of the group calls the operations in the same order, each from its one training
// thread. send and all_reduce only start an operation: the communicator owns the tensor until it is
// received or waited for. recv and wait block. Operations throw PeerLost when a peer is gone.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <ATen/core/Tensor.h>

namespace roll::train {

// a channel delivers tensors between two ranks in the order of send
enum class Channel { Activation, Gradient };

class Communicator {
  public:
    using Ticket = std::int64_t;

    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void send(const at::Tensor& tensor, int to, Channel channel) = 0;
    virtual void recv(at::Tensor& tensor, int from, Channel channel) = 0;
    // starts a sum over the ranks, in place
    virtual Ticket all_reduce(const at::Tensor& tensor) = 0;
    virtual void wait(Ticket ticket) = 0;
};

// Thrown when a peer died, left or does not respond. The peer is at fault, not this rank, so the
// exit status is 76.
class PeerLost : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Sums `tensor` over the group in place; returns when the sum is complete.
void sum_over(Communicator& group, const at::Tensor& tensor);

// Returns the tensors of all ranks, [size, ...], in the order of the ranks. They must have the same
// shape and type.
at::Tensor gather_over(Communicator& group, const at::Tensor& own);

// Returns when every rank of the group has called it.
void barrier(Communicator& group);

}  // namespace roll::train
