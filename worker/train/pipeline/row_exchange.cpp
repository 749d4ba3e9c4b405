#include "worker/train/pipeline/row_exchange.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {
namespace {

constexpr std::size_t kPendingMax = 2;

}  // namespace

template <class Body>
void RowExchange::for_rows_of(Of of, int bucket, int owner, const Body& body) const {
    const Parameters& p = parameters_;
    for (int i = buckets_[bucket].parameter_begin; i < buckets_[bucket].parameter_end; ++i) {
        if (p.specs[i].frozen || (of == Of::Weights && p.is_split[i])) continue;
        body(static_cast<std::size_t>(i), layout::own_rows(p.specs[i].sizes[0], dp_.size(), owner));
    }
}

std::vector<std::int64_t> RowExchange::longest_pieces(Of of) const {
    std::vector<std::int64_t> longest(buckets_.size(), 0);
    for (int bucket = 0; bucket < std::ssize(buckets_); ++bucket)
        for (int owner = 0; owner < dp_.size(); ++owner) {
            std::int64_t size = 0;
            for_rows_of(of, bucket, owner, [&](std::size_t i, const auto& rows) {
                const std::vector<std::int64_t>& sizes = parameters_.specs[i].sizes;
                size += rows.count * (c10::multiply_integers(sizes) / sizes[0]);
            });
            longest[bucket] = std::max(longest[bucket], size);
        }
    return longest;
}

RowExchange::RowExchange(const Parameters& parameters, std::vector<plan::Bucket> buckets,
                         Communicator& dp)
    : parameters_(parameters),
      buckets_(std::move(buckets)),
      dp_(dp),
      longest_gradients_(longest_pieces(Of::Gradients)),
      longest_weights_(longest_pieces(Of::Weights)) {}

// Copies the rows of rank `owner` to the beginning of `piece`, and sets the rest of the piece to 0.
void RowExchange::pack(Of of, int bucket, int owner, const at::Tensor& piece) const {
    const std::vector<at::Tensor>& tensors =
        of == Of::Gradients ? parameters_.grad : parameters_.weight;
    std::int64_t begin = 0;
    for_rows_of(of, bucket, owner, [&](std::size_t i, const layout::Rows& rows) {
        const at::Tensor from = tensors[i].narrow(0, rows.begin, rows.count);
        piece.narrow(0, begin, from.numel()).view(from.sizes()).copy_(from);
        begin += from.numel();
    });
    piece.slice(0, begin).zero_();
}

void RowExchange::unpack_weights(int bucket, const at::Tensor& piece, int owner) const {
    std::int64_t begin = 0;
    for_rows_of(Of::Weights, bucket, owner, [&](std::size_t i, const layout::Rows& rows) {
        const at::Tensor to = parameters_.weight[i].narrow(0, rows.begin, rows.count);
        to.copy_(piece.narrow(0, begin, to.numel()).view(to.sizes()));
        begin += to.numel();
    });
}

at::Tensor RowExchange::buffer(std::int64_t longest, at::ScalarType type) const {
    const TensorUseScope exchange(TensorUse::Exchange);
    return at::empty({dp_.size(), longest}, parameters_.flat_weight.options().dtype(type));
}

at::Tensor RowExchange::piece(std::int64_t longest, at::ScalarType type) const {
    const TensorUseScope exchange(TensorUse::Exchange);
    return at::empty({1, longest}, parameters_.flat_weight.options().dtype(type));
}

void RowExchange::start_sum(int bucket) {
    const std::int64_t longest = longest_gradients_[bucket];
    if (longest == 0) return;
    while (sums_.size() >= kPendingMax) take_sum();
    const at::Tensor sent = buffer(longest, main_type(parameters_));
    for (int owner = 0; owner < dp_.size(); ++owner)
        pack(Of::Gradients, bucket, owner, sent[owner]);
    const at::Tensor received = piece(longest, sent.scalar_type());
    const auto ticket = dp_.reduce_scatter(received, sent, {Site::Bucket, bucket});
    sums_.push_back({bucket, ticket, sent, received[0]});
}

void RowExchange::take_sum() {
    const Pending sum = std::move(sums_.front());
    sums_.pop_front();
    dp_.wait(sum.ticket);
    std::int64_t begin = 0;
    for_rows_of(Of::Gradients, sum.bucket, dp_.rank(), [&](std::size_t i, const layout::Rows&) {
        const at::Tensor to = parameters_.own_grad[i];
        const at::Tensor from = sum.received.narrow(0, begin, to.numel()).view(to.sizes());
        parameters_.stage != nullptr ? to.add_(from) : to.copy_(from);
        begin += to.numel();
    });
}

void RowExchange::finish_sums() {
    while (!sums_.empty()) take_sum();
}

void RowExchange::start_gathers() {
    ROLL_CHECK(gathers_.empty() && next_gather_ < 0);
    next_gather_ = static_cast<int>(std::ssize(buckets_)) - 1;
    start_next_gathers();
}

// Buckets are numbered in the order of backward, so forward uses the last bucket first.
void RowExchange::start_next_gathers() {
    for (; next_gather_ >= 0 && gathers_.size() < kPendingMax; --next_gather_) {
        const std::int64_t longest = longest_weights_[next_gather_];
        if (longest == 0) continue;
        const at::Tensor received = buffer(longest, parameters_.flat_weight.scalar_type());
        const at::Tensor sent = piece(longest, received.scalar_type());
        pack(Of::Weights, next_gather_, dp_.rank(), sent[0]);
        const auto ticket = dp_.all_gather(received, sent, {Site::Weights, next_gather_});
        gathers_.push_back({next_gather_, ticket, sent, received});
    }
}

void RowExchange::await_weights(int parameter) {
    while (!gathers_.empty() && buckets_[gathers_.front().bucket].parameter_begin <= parameter) {
        {
            const Pending gathered = std::move(gathers_.front());
            gathers_.pop_front();
            dp_.wait(gathered.ticket);
            for (int owner = 0; owner < dp_.size(); ++owner)
                if (owner != dp_.rank())
                    unpack_weights(gathered.bucket, gathered.received[owner], owner);
        }
        start_next_gathers();
    }
}

}  // namespace roll::train
