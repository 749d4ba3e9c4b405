// A group of ranks and the operations between them.
//
// Called from each rank's one training thread, by every rank of the group in the same order. send
// and all_reduce only start the operation: the communicator owns the tensor until it is received or
// waited for. recv and wait block. Throws PeerLost when a peer is gone.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <ATen/core/Tensor.h>

namespace roll::train {

enum class Channel { Activation, Gradient };  // each is FIFO between two ranks

class Communicator {
  public:
    using Ticket = std::int64_t;

    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void send(const at::Tensor& tensor, int to, Channel channel) = 0;
    virtual void recv(at::Tensor& tensor, int from, Channel channel) = 0;
    virtual Ticket all_reduce(const at::Tensor& tensor) = 0;  // sums in place
    virtual void wait(Ticket ticket) = 0;
};

// A peer died, left or does not respond: not this rank's own fault (exit status 76).
class PeerLost : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Sums over the group in place; blocks until done.
void sum_over(Communicator& group, const at::Tensor& tensor);

// Returns when every rank of the group has called it.
void barrier(Communicator& group);

}  // namespace roll::train
