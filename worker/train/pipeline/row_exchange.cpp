#include "worker/train/pipeline/row_exchange.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

constexpr std::size_t kPendingMax = 2;

// Calls body(i, rows) for each trained parameter of the bucket, with the rows that rank `owner`
// owns.
template <class Body>
void for_rows_of(const Parameters& p, const plan::Bucket& bucket, int owners, int owner,
                 const Body& body) {
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
        const ParameterSpec& spec = p.specs[i];
        if (spec.frozen) continue;
        body(static_cast<std::size_t>(i), layout::own_rows(spec.sizes[0], owners, owner));
    }
}

}  // namespace

RowExchange::RowExchange(const Parameters& parameters, std::vector<plan::Bucket> buckets,
                         Communicator& dp)
    : parameters_(parameters),
      buckets_(std::move(buckets)),
      dp_(dp) {
    for (const plan::Bucket& bucket : buckets_) {
        std::int64_t longest = 0;
        for (int owner = 0; owner < dp.size(); ++owner) {
            std::int64_t size = 0;
            for_rows_of(parameters_, bucket, dp.size(), owner,
                        [&](std::size_t i, const auto& rows) {
                            const at::Tensor& weight = parameters_.weight[i];
                            size += rows.count * (weight.numel() / weight.size(0));
                        });
            longest = std::max(longest, size);
        }
        longest_.push_back(longest);
    }
}

// Copies the rows of rank `owner` to the beginning of `piece`, and sets the rest to 0.
void RowExchange::pack(int bucket, const std::vector<at::Tensor>& tensors, int owner,
                       const at::Tensor& piece) const {
    std::int64_t begin = 0;
    for_rows_of(parameters_, buckets_[bucket], dp_.size(), owner,
                [&](std::size_t i, const layout::Rows& rows) {
                    const at::Tensor from = tensors[i].narrow(0, rows.begin, rows.count);
                    piece.narrow(0, begin, from.numel()).view(from.sizes()).copy_(from);
                    begin += from.numel();
                });
    piece.slice(0, begin).zero_();
}

void RowExchange::unpack_weights(int bucket, const at::Tensor& piece, int owner) const {
    std::int64_t begin = 0;
    for_rows_of(parameters_, buckets_[bucket], dp_.size(), owner,
                [&](std::size_t i, const layout::Rows& rows) {
                    const at::Tensor to = parameters_.weight[i].narrow(0, rows.begin, rows.count);
                    to.copy_(piece.narrow(0, begin, to.numel()).view(to.sizes()));
                    begin += to.numel();
                });
}

at::Tensor RowExchange::buffer(int bucket, at::ScalarType type) const {
    return at::empty({dp_.size(), longest_[bucket]}, parameters_.flat_weight.options().dtype(type));
}

void RowExchange::start_sum(int bucket) {
    if (longest_[bucket] == 0) return;
    while (pending_.size() >= kPendingMax) take_sum();
    const at::Tensor sent = buffer(bucket, main_type(parameters_));
    for (int owner = 0; owner < dp_.size(); ++owner)
        pack(bucket, parameters_.grad, owner, sent[owner]);
    const at::Tensor received = at::empty({1, longest_[bucket]}, sent.options());
    const auto ticket = dp_.reduce_scatter(received, sent, {Site::Bucket, bucket});
    pending_.push_back({bucket, ticket, sent, received[0]});
}

void RowExchange::take_sum() {
    const Pending sum = std::move(pending_.front());
    pending_.pop_front();
    dp_.wait(sum.ticket);
    std::int64_t begin = 0;
    for_rows_of(parameters_, buckets_[sum.bucket], dp_.size(), dp_.rank(),
                [&](std::size_t i, const layout::Rows&) {
                    const at::Tensor to = parameters_.own_grad[i];
                    const at::Tensor from =
                        sum.received.narrow(0, begin, to.numel()).view(to.sizes());
                    parameters_.stage != nullptr ? to.add_(from) : to.copy_(from);
                    begin += to.numel();
                });
}

void RowExchange::finish_sums() {
    while (!pending_.empty()) take_sum();
}

void RowExchange::gather_weights() {
    const auto take = [&] {
        const Pending gathered = std::move(pending_.front());
        pending_.pop_front();
        dp_.wait(gathered.ticket);
        for (int owner = 0; owner < dp_.size(); ++owner)
            if (owner != dp_.rank())
                unpack_weights(gathered.bucket, gathered.received[owner], owner);
    };
    for (int bucket = 0; bucket < std::ssize(buckets_); ++bucket) {
        if (longest_[bucket] == 0) continue;
        if (pending_.size() >= kPendingMax) take();
        const at::Tensor received = buffer(bucket, parameters_.flat_weight.scalar_type());
        const at::Tensor sent = at::empty({1, longest_[bucket]}, received.options());
        pack(bucket, parameters_.weight, dp_.rank(), sent[0]);
        const auto ticket = dp_.all_gather(received, sent, {Site::Weights, bucket});
        pending_.push_back({bucket, ticket, sent, received});
    }
    while (!pending_.empty()) take();
}

}  // namespace roll::train
