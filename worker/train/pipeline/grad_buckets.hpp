// Reduces a chunk's flat gradient in the buckets of plan::cut_buckets. Each bucket is all-reduced
// over the data-parallel ranks as soon as its last contribution is added, while backward continues.
// If the ranks share optimizer state, each rank gets only the sum of its own rows
// (row_exchange.hpp).
//
// With staged gradients (InitOptions::stages_gradients), a bucket has gradients only from its first
// contribution until all contributions of one micro-batch are added. Then, the gradients are summed
// over the ranks, and each rank adds the sums of its own rows to its gradients.
//
// Frozen parameters have no staged gradient and are not sent, because their gradient is 0 on every
// rank.
//
// Only the schedule decides when a bucket is complete, so all replicas issue the same reductions in
// the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "worker/plan/buckets.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/pipeline/row_exchange.hpp"

namespace roll::train {

class GradBuckets final : public GradStage {
  public:
    // If `bucket_numel` is 0, plan::default_bucket_numel is used. `tp` is the tensor-parallel
    // group, or null. When a bucket is complete, its partial gradients (ParameterSpec::partial) are
    // summed over `tp`. Then issued(bucket) is called, and the reduction over `dp` starts. If `dp`
    // has one rank, there is no reduction, but issued(bucket) is called.
    GradBuckets(Parameters& parameters, std::int64_t bucket_numel, Communicator& dp,
                Communicator* tp, std::function<void(int bucket)> issued);

    void begin(int microbatches);  // starts a step with this number of micro-batches
    // must be called after each contribution to the gradient of `parameter`
    void ready(int parameter);
    void finish();  // waits for all reductions; aborts if a contribution is missing

    ops::Sum open(int parameter) override;

    // If the ranks share optimizer state, start_gathers() starts to copy the updated weights from
    // the ranks that own these weights. await_weights(i) waits for the parameters up to `i`.
    void start_gathers();
    void await_weights(int parameter);

    const std::vector<plan::Bucket>& buckets() const { return buckets_; }

    // Returns the hashes of the gradients that this rank has given to the sums over the replicas
    // since begin(), in the order of the sums. Empty if `dp` has one rank, and on a GPU.
    const std::vector<std::int64_t>& sent() const { return sent_; }

    // Returns true while contributions of the current step are missing.
    bool is_open() const;

    // Returns the number of elements of the trained parameters in the bucket.
    std::int64_t trained_numel(int bucket) const;

  private:
    void sum_partial(int number);
    bool is_complete(int number);
    void fill(const plan::Bucket& bucket);
    void close(const plan::Bucket& bucket);
    void note_sent(const plan::Bucket& bucket);

    Parameters& parameters_;
    Communicator& dp_;
    Communicator* tp_;
    std::function<void(int)> issued_;
    std::vector<plan::Bucket> buckets_;
    // For each bucket: views of its part of the gradient, without the frozen parameters
    std::vector<std::vector<at::Tensor>> sums_;
    std::vector<int> bucket_of_;  // for each parameter: index of its bucket
    std::vector<int> missing_;    // for each bucket: number of contributions that are still missing
    std::vector<int> added_;      // for each parameter: number of contributions in this step
    std::vector<int> summed_;     // for each bucket: number of micro-batches summed over the ranks
    // for each parameter: true if nothing has been added to its staged gradient yet
    std::vector<bool> fresh_;
    std::vector<std::int64_t> sent_;
    std::vector<Communicator::Ticket> tickets_;
    std::optional<RowExchange> exchange_;  // set if the ranks share optimizer state
};

}  // namespace roll::train
