#include "worker/train/comm/local_communicator.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {

void LocalCommunicator::send(const at::Tensor& tensor, int to, Channel channel) {
    const std::lock_guard lock(group_.mutex_);
    group_.channels_[{rank_, to, channel}].push_back(tensor);
    group_.changed_.notify_all();
}

void LocalCommunicator::recv(at::Tensor& tensor, int from, Channel channel) {
    std::unique_lock lock(group_.mutex_);
    std::deque<at::Tensor>& messages = group_.channels_[{from, rank_, channel}];
    group_.changed_.wait(lock, [&] { return !messages.empty(); });
    ROLL_CHECK(messages.front().sizes() == tensor.sizes());
    tensor = std::move(messages.front());
    messages.pop_front();
}

Communicator::Ticket LocalCommunicator::all_reduce(const at::Tensor& tensor) {
    const std::lock_guard lock(group_.mutex_);
    const std::size_t number = group_.issued_[rank_]++;
    if (number == group_.reductions_.size())
        group_.reductions_.push_back({std::vector<at::Tensor>(group_.size_), group_.size_});
    LocalGroup::Reduction& reduction = group_.reductions_[number];
    reduction.parts[rank_] = tensor;
    if (--reduction.missing == 0) {
        at::Tensor sum = reduction.parts[0].clone();
        for (int rank = 1; rank < group_.size_; ++rank) sum.add_(reduction.parts[rank]);
        for (at::Tensor& part : reduction.parts) part.copy_(sum);
        reduction.parts.clear();
        group_.changed_.notify_all();
    }
    return static_cast<Ticket>(number);
}

void LocalCommunicator::wait(Ticket ticket) {
    std::unique_lock lock(group_.mutex_);
    group_.changed_.wait(lock, [&] { return group_.reductions_[ticket].missing == 0; });
}

}  // namespace roll::train
