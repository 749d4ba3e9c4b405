// A group of ranks and the operations between them.
//
// Every rank of the group issues the same collectives with the same tags in the same order. Each
// rank issues them from its one training thread. Issuing an operation only starts it. Collectives
// and receives return a ticket. The communicator owns their tensors until wait(ticket) returns. A
// send returns no ticket, because no rank waits for the end of a send. Operations throw PeerLost
// when a peer is gone.
//
// Tensors must be contiguous. The output of all_gather and the input of reduce_scatter consist of
// size() equal parts along dimension 0, one for each rank, in the order of the ranks.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <ATen/core/Tensor.h>

#include "worker/train/comm/tag.hpp"

namespace roll::train {

enum class Reduce : std::uint8_t { Sum, Max };

// One operation, as one rank issues it.
struct Transfer {
    enum class Kind : std::uint8_t {
        AllReduce,
        AllGather,
        ReduceScatter,
        Broadcast,
        Send,
        Receive
    };
    Kind kind;
    Tag tag;
    // The input and the output. A receive has no `in`, and a send has no `out`. If an operation
    // works in place, both are the same tensor.
    at::Tensor in, out;
    Reduce reduce = Reduce::Sum;
    int peer = -1;  // root of a broadcast, or the other rank of a send or a receive

    bool is_collective() const { return kind < Kind::Send; }
    // Returns the output of a receive, and the input of any other operation. This tensor has the
    // same size on all ranks of the operation.
    const at::Tensor& payload() const { return in.defined() ? in : out; }
};

// Returns the operation in words, e.g. "all-reduce of row output, layer 3".
std::string text(const Transfer& transfer);

class Communicator {
  public:
    using Ticket = std::int64_t;

    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual Ticket issue(const Transfer& transfer) = 0;
    virtual void wait(Ticket ticket) = 0;

    Ticket all_reduce(const at::Tensor& tensor, Reduce reduce, Tag tag);
    Ticket all_gather(const at::Tensor& out, const at::Tensor& in, Tag tag);
    // Sums `in` over the ranks, and divides the sum into one part for each rank. Writes part r of
    // the sum to `out` of rank r.
    Ticket reduce_scatter(const at::Tensor& out, const at::Tensor& in, Tag tag);
    Ticket broadcast(const at::Tensor& tensor, int root, Tag tag);
    // Messages with the same Site (tag.hpp) between two ranks arrive in the order in which they
    // were sent.
    void send(const at::Tensor& tensor, int to, Tag tag);
    Ticket receive(const at::Tensor& tensor, int from, Tag tag);
};

// Thrown when a peer died, left or does not respond. The peer is at fault, not this rank, so the
// exit status is 76.
class PeerLost : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The functions below return when the operation is complete. In a group of one rank, these
// functions send nothing.

// Sums `tensor` over the group in place.
void sum_over(Communicator& group, const at::Tensor& tensor, Tag tag);

// Replaces `tensor` by the tensor of rank `root`.
void broadcast_from(int root, Communicator& group, const at::Tensor& tensor, Tag tag);

// Returns the tensors of all ranks, [size, ...], in the order of the ranks. All ranks must pass
// tensors of the same shape and type.
at::Tensor gather_over(Communicator& group, const at::Tensor& own, Tag tag);

// Returns when every rank of the group has called this function.
void barrier(Communicator& group);

}  // namespace roll::train
