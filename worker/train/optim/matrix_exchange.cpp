#include "worker/train/optim/matrix_exchange.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

std::int64_t whole_numel(const ParameterSpec& spec) {
    return c10::multiply_integers(whole_sizes(spec));
}

// Returns a view of the elements of `slot` from `begin` on, with shape `sizes`.
at::Tensor shaped(const at::Tensor& slot, at::IntArrayRef sizes, std::int64_t begin = 0) {
    return slot.narrow(0, begin, c10::multiply_integers(sizes)).view(sizes);
}

}  // namespace

MatrixExchange::MatrixExchange(const Parameters& parameters, std::vector<std::size_t> matrices,
                               Communicator* dp, Communicator* tp)
    : parameters_(parameters),
      dp_(dp),
      tp_(tp),
      replicas_(dp == nullptr ? 1 : dp->size()),
      shards_(tp == nullptr ? 1 : tp->size()) {
    std::ranges::stable_sort(matrices, std::greater(),
                             [&](std::size_t i) { return whole_numel(parameters.specs[i]); });
    const std::size_t size =
        static_cast<std::size_t>(replicas_) * static_cast<std::size_t>(shards_);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
        if (i % size == 0) batches_.emplace_back();
        batches_.back().push_back(matrices[i]);
    }
}

at::Tensor MatrixExchange::slots(int ranks, std::int64_t size) const {
    return at::zeros({ranks, size},
                     parameters_.flat_weight.options().dtype(main_type(parameters_)));
}

std::size_t MatrixExchange::first_of_rank(int dp_rank) const {
    return static_cast<std::size_t>(dp_rank) * static_cast<std::size_t>(shards_);
}

// Returns this rank's shards of the batch's matrices that this replica computes. A shard is a
// tensor-parallel rank's part of a matrix. If the replicas share optimizer state, collects the rows
// of these shards from all replicas.
std::vector<at::Tensor> MatrixExchange::to_owner(const std::vector<std::size_t>& batch,
                                                 const std::vector<at::Tensor>& own,
                                                 Tag tag) const {
    const int replica = dp_ == nullptr ? 0 : dp_->rank();
    const std::size_t first = std::min(first_of_rank(replica), batch.size());
    const std::size_t end = std::min(first_of_rank(replica + 1), batch.size());
    if (!parameters_.is_shared)
        return {own.begin() + static_cast<std::ptrdiff_t>(first),
                own.begin() + static_cast<std::ptrdiff_t>(end)};
    std::int64_t largest = 0;
    for (const std::size_t i : batch)
        largest = std::max(largest, c10::multiply_integers(parameters_.specs[i].sizes));
    const at::Tensor sent = slots(replicas_, largest * shards_);
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const auto slot = static_cast<std::int64_t>(k);
        const at::Tensor part = shaped(sent[slot / shards_], parameters_.specs[batch[k]].sizes,
                                       slot % shards_ * largest);
        own_rows(parameters_, batch[k], part).copy_(own[k]);
    }
    const at::Tensor received = slots(1, largest * shards_);
    dp_->wait(dp_->reduce_scatter(received, sent, tag));
    std::vector<at::Tensor> parts;
    for (std::size_t k = first; k < end; ++k)
        parts.push_back(shaped(received[0], parameters_.specs[batch[k]].sizes,
                               static_cast<std::int64_t>(k - first) * largest));
    return parts;
}

// Runs `compute` on the matrices that this replica computes. Replaces `parts`, this rank's shards
// of these matrices, by shards of the results. `batch` lists only these matrices.
void MatrixExchange::compute_wholes(const std::vector<std::size_t>& batch,
                                    std::vector<at::Tensor>& parts, Tag tag,
                                    const Compute& compute) const {
    if (batch.empty()) return;
    if (shards_ == 1) {
        parts[0] = parts[0].contiguous();
        return compute(batch[0], parts[0]);
    }
    std::int64_t largest = 0;
    for (const std::size_t i : batch)
        largest = std::max(largest, whole_numel(parameters_.specs[i]));
    const at::Tensor sent = slots(shards_, largest);
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const ParameterSpec& spec = parameters_.specs[batch[k]];
        const bool is_copy = spec.parts.empty() && tp_->rank() > 0;
        if (is_copy) continue;
        copy_to_whole(spec, parts[k],
                      shaped(sent[static_cast<std::int64_t>(k)], whole_sizes(spec)));
    }
    const at::Tensor received = slots(1, largest);
    tp_->wait(tp_->reduce_scatter(received, sent, tag));
    const auto self = static_cast<std::size_t>(tp_->rank());
    if (self < batch.size())
        compute(batch[self], shaped(received[0], whole_sizes(parameters_.specs[batch[self]])));
    const at::Tensor all = slots(shards_, largest);
    tp_->wait(tp_->all_gather(all, received, tag));
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const ParameterSpec& spec = parameters_.specs[batch[k]];
        parts[k] = at::empty(spec.sizes, all.options());
        copy_from_whole(spec, shaped(all[static_cast<std::int64_t>(k)], whole_sizes(spec)),
                        parts[k]);
    }
}

void MatrixExchange::run(std::size_t number, std::vector<at::Tensor>& own, const Compute& compute) {
    const std::vector<std::size_t>& batch = batches_[number];
    const Tag tag{Site::Matrices, static_cast<int>(number)};
    std::vector<at::Tensor> parts = to_owner(batch, own, tag);
    const std::size_t first =
        std::min(first_of_rank(dp_ == nullptr ? 0 : dp_->rank()), batch.size());
    const auto mine = batch.begin() + static_cast<std::ptrdiff_t>(first);
    compute_wholes({mine, mine + std::ssize(parts)}, parts, tag, compute);
    if (replicas_ == 1) {
        own = std::move(parts);
        return;
    }
    std::int64_t largest = 0;
    for (const std::size_t i : batch)
        largest = std::max(largest, c10::multiply_integers(parameters_.specs[i].sizes));
    const at::Tensor sent = slots(1, largest * shards_), all = slots(replicas_, largest * shards_);
    for (std::size_t k = 0; k < parts.size(); ++k)
        shaped(sent[0], parts[k].sizes(), static_cast<std::int64_t>(k) * largest).copy_(parts[k]);
    dp_->wait(dp_->all_gather(all, sent, tag));
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const auto slot = static_cast<std::int64_t>(k);
        const at::Tensor part = shaped(all[slot / shards_], parameters_.specs[batch[k]].sizes,
                                       slot % shards_ * largest);
        own[k] = own_rows(parameters_, batch[k], part).contiguous();
    }
}

}  // namespace roll::train
