#include "worker/train/comm/communicator.hpp"

#include <vector>

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

const char* name(Transfer::Kind kind) {
    using Kind = Transfer::Kind;
    switch (kind) {
        case Kind::AllReduce: return "all-reduce";
        case Kind::AllGather: return "all-gather";
        case Kind::ReduceScatter: return "reduce-scatter";
        case Kind::Broadcast: return "broadcast";
        case Kind::Send: return "send";
        case Kind::Receive: return "receive";
    }
    return "?";
}

bool is_whole(const at::Tensor& whole, const at::Tensor& part, int size) {
    return whole.is_contiguous() && part.is_contiguous() &&
           whole.scalar_type() == part.scalar_type() && whole.numel() == part.numel() * size;
}

}  // namespace

std::string text(const Transfer& transfer) {
    return std::string(name(transfer.kind)) + " of " + text(transfer.tag);
}

Communicator::Ticket Communicator::all_reduce(const at::Tensor& tensor, Reduce reduce, Tag tag) {
    ROLL_CHECK(tensor.is_contiguous());
    return issue({Transfer::Kind::AllReduce, tag, tensor, tensor, reduce});
}

Communicator::Ticket Communicator::all_gather(const at::Tensor& out, const at::Tensor& in,
                                              Tag tag) {
    ROLL_CHECK(is_whole(out, in, size()));
    return issue({Transfer::Kind::AllGather, tag, in, out});
}

Communicator::Ticket Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                                  Tag tag) {
    ROLL_CHECK(is_whole(in, out, size()));
    return issue({Transfer::Kind::ReduceScatter, tag, in, out});
}

Communicator::Ticket Communicator::broadcast(const at::Tensor& tensor, int root, Tag tag) {
    ROLL_CHECK(tensor.is_contiguous());
    return issue({Transfer::Kind::Broadcast, tag, tensor, tensor, Reduce::Sum, root});
}

void Communicator::send(const at::Tensor& tensor, int to, Tag tag) {
    issue({Transfer::Kind::Send, tag, tensor.contiguous(), {}, Reduce::Sum, to});
}

Communicator::Ticket Communicator::receive(const at::Tensor& tensor, int from, Tag tag) {
    ROLL_CHECK(tensor.is_contiguous());
    return issue({Transfer::Kind::Receive, tag, {}, tensor, Reduce::Sum, from});
}

void sum_over(Communicator& group, const at::Tensor& tensor, Tag tag) {
    if (group.size() > 1) group.wait(group.all_reduce(tensor, Reduce::Sum, tag));
}

void broadcast_from(int root, Communicator& group, const at::Tensor& tensor, Tag tag) {
    if (group.size() > 1) group.wait(group.broadcast(tensor, root, tag));
}

at::Tensor gather_over(Communicator& group, const at::Tensor& own, Tag tag) {
    const at::Tensor in = own.contiguous();
    if (group.size() == 1) return in.unsqueeze(0).clone();
    std::vector<std::int64_t> sizes = in.sizes().vec();
    sizes.insert(sizes.begin(), group.size());
    const at::Tensor all = at::empty(sizes, in.options());
    group.wait(group.all_gather(all, in, tag));
    return all;
}

void barrier(Communicator& group) { sum_over(group, at::zeros({1}, at::kDouble), {Site::Barrier}); }

}  // namespace roll::train
