#include "worker/train/comm/local_communicator.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

using Kind = Transfer::Kind;

at::Tensor part_of(const at::Tensor& whole, std::size_t rank, std::size_t ranks) {
    const std::int64_t numel = whole.numel() / static_cast<std::int64_t>(ranks);
    return whole.view(-1).narrow(0, static_cast<std::int64_t>(rank) * numel, numel);
}

// Returns the sum or maximum of the inputs, added in rank order.
at::Tensor reduced(const std::vector<Transfer>& parts) {
    const at::Tensor all = parts[0].in.clone();
    for (std::size_t rank = 1; rank < parts.size(); ++rank) {
        if (parts[0].reduce == Reduce::Sum)
            all.add_(parts[rank].in);
        else
            at::maximum_out(const_cast<at::Tensor&>(all), all, parts[rank].in);
    }
    return all;
}

// Writes the outputs of a collective that all ranks have issued.
void complete(const std::vector<Transfer>& parts) {
    const std::size_t ranks = parts.size();
    at::Tensor all;
    switch (parts[0].kind) {
        case Kind::AllReduce:
        case Kind::ReduceScatter: all = reduced(parts); break;
        case Kind::Broadcast:
            all = parts[static_cast<std::size_t>(parts[0].peer)].in.clone();
            break;
        default:
            all = at::empty_like(parts[0].out);
            for (std::size_t rank = 0; rank < ranks; ++rank)
                part_of(all, rank, ranks).copy_(parts[rank].in.view(-1));
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const at::Tensor& out = parts[rank].out;
        out.view(-1).copy_(parts[0].kind == Kind::ReduceScatter ? part_of(all, rank, ranks)
                                                                : all.view(-1));
    }
}

}  // namespace

LocalCommunicator::~LocalCommunicator() {
    const std::lock_guard lock(group_.mutex_);
    group_.left_[rank_] = true;
    group_.changed_.notify_all();
}

Communicator::Ticket LocalCommunicator::issue(const Transfer& transfer) {
    const std::lock_guard lock(group_.mutex_);
    if (transfer.kind == Kind::Send) {
        group_.messages_[{rank_, transfer.peer, transfer.tag.site}].push_back(transfer.in.clone());
        group_.changed_.notify_all();
        return 0;
    }
    if (transfer.kind == Kind::Receive) {
        receiving_.emplace(receives_, transfer);
        return receives_--;
    }
    const Ticket number = group_.issued_[rank_]++;
    auto [entry, fresh] = group_.collectives_.try_emplace(number);
    LocalGroup::Collective& collective = entry->second;
    if (fresh) collective = {std::vector<Transfer>(group_.left_.size()), size(), size()};
    collective.parts[rank_] = transfer;
    if (--collective.missing == 0) {
        complete(collective.parts);
        collective.parts.clear();
        group_.changed_.notify_all();
    }
    return number;
}

void LocalCommunicator::wait(Ticket ticket) {
    if (ticket < 0)
        await_message(receiving_.extract(ticket).mapped());
    else
        await_ranks(ticket);
}

void LocalCommunicator::await_message(const Transfer& receive) {
    std::unique_lock lock(group_.mutex_);
    std::deque<at::Tensor>& messages = group_.messages_[{receive.peer, rank_, receive.tag.site}];
    group_.changed_.wait(lock, [&] { return !messages.empty() || group_.left_[receive.peer]; });
    if (messages.empty())
        throw PeerLost("rank " + std::to_string(receive.peer) +
                       " stopped before it sent its message");
    ROLL_CHECK(messages.front().sizes() == receive.out.sizes());
    receive.out.copy_(messages.front());
    messages.pop_front();
}

void LocalCommunicator::await_ranks(Ticket ticket) {
    std::unique_lock lock(group_.mutex_);
    LocalGroup::Collective& collective = group_.collectives_.at(ticket);
    const auto absent = [&](int rank) {
        return group_.left_[rank] && group_.issued_[rank] <= ticket;
    };
    group_.changed_.wait(lock, [&] {
        if (collective.missing == 0) return true;
        for (int rank = 0; rank < group_.size_; ++rank)
            if (absent(rank)) throw PeerLost("rank " + std::to_string(rank) + " left the group");
        return false;
    });
    if (--collective.unread == 0) group_.collectives_.erase(ticket);
}

}  // namespace roll::train
