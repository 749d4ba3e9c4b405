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

enum class Channel { Activation, Gradient };  // each channel is FIFO between two ranks

class Communicator {
  public:
    using Ticket = std::int64_t;

    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void send(const at::Tensor& tensor, int to, Channel channel) = 0;
    virtual void recv(at::Tensor& tensor, int from, Channel channel) = 0;
    virtual Ticket all_reduce(const at::Tensor& tensor) = 0;  // sums over the ranks, in place
    virtual void wait(Ticket ticket) = 0;
};

// Thrown when a peer died, left or does not respond. It is not this rank's own fault (exit status
// 76).
class PeerLost : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Sums `tensor` over the group in place; blocks until done.
void sum_over(Communicator& group, const at::Tensor& tensor);

// Returns when every rank of the group has called it.
void barrier(Communicator& group);

}  // namespace roll::train
