#include "worker/train/comm/local_communicator.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {

LocalCommunicator::~LocalCommunicator() {
    const std::lock_guard lock(group_.mutex_);
    group_.left_[rank_] = true;
    group_.changed_.notify_all();
}

void LocalCommunicator::send(const at::Tensor& tensor, int to, Channel channel) {
    const std::lock_guard lock(group_.mutex_);
    group_.channels_[{rank_, to, channel}].push_back(tensor);
    group_.changed_.notify_all();
}

void LocalCommunicator::recv(at::Tensor& tensor, int from, Channel channel) {
    std::unique_lock lock(group_.mutex_);
    std::deque<at::Tensor>& messages = group_.channels_[{from, rank_, channel}];
    group_.changed_.wait(lock, [&] { return !messages.empty() || group_.left_[from]; });
    if (messages.empty())
        throw PeerLost("rank " + std::to_string(from) + " stopped before it sent its message");
    ROLL_CHECK(messages.front().sizes() == tensor.sizes());
    tensor = std::move(messages.front());
    messages.pop_front();
}

Communicator::Ticket LocalCommunicator::all_reduce(const at::Tensor& tensor) {
    const std::lock_guard lock(group_.mutex_);
    const Ticket number = group_.issued_[rank_]++;
    const auto size = static_cast<std::size_t>(group_.size_);
    auto [entry, fresh] = group_.reductions_.try_emplace(number);
    LocalGroup::Reduction& reduction = entry->second;
    if (fresh) reduction = {std::vector<at::Tensor>(size), group_.size_, group_.size_};
    reduction.parts[rank_] = tensor;
    if (--reduction.missing == 0) {
        const at::Tensor sum = reduction.parts[0].clone();
        for (std::size_t rank = 1; rank < size; ++rank) sum.add_(reduction.parts[rank]);
        for (const at::Tensor& part : reduction.parts) part.copy_(sum);
        reduction.parts.clear();
        group_.changed_.notify_all();
    }
    return number;
}

void LocalCommunicator::wait(Ticket ticket) {
    std::unique_lock lock(group_.mutex_);
    LocalGroup::Reduction& reduction = group_.reductions_.at(ticket);
    const auto absent = [&](int rank) {
        return group_.left_[rank] && group_.issued_[rank] <= ticket;
    };
    group_.changed_.wait(lock, [&] {
        if (reduction.missing == 0) return true;
        for (int rank = 0; rank < group_.size_; ++rank)
            if (absent(rank)) throw PeerLost("rank " + std::to_string(rank) + " left the group");
        return false;
    });
    if (--reduction.unread == 0) group_.reductions_.erase(ticket);
}

}  // namespace roll::train
