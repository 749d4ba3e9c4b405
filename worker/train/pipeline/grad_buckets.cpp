#include "worker/train/pipeline/grad_buckets.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/pipeline/tensor_hash.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {
namespace {

// Returns views of the bucket's part of the flat gradient. There is one view for each run of
// adjacent trained parameters.
std::vector<at::Tensor> trained_parts(const Parameters& parameters, const plan::Bucket& bucket) {
    std::vector<at::Tensor> parts;
    std::int64_t begin = bucket.begin, end = begin;
    const auto close = [&] {
        if (begin < end) parts.push_back(parameters.flat_grad.slice(0, begin, end));
    };
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
        const std::int64_t size = parameters.grad[i].numel();
        if (parameters.specs[i].frozen) {
            close();
            begin = end + size;
        }
        end += size;
    }
    close();
    return parts;
}

}  // namespace

GradBuckets::GradBuckets(Parameters& parameters, std::int64_t bucket_numel, Communicator& dp,
                         Communicator* tp, std::function<void(int)> issued)
    : parameters_(parameters),
      dp_(dp),
      tp_(tp),
      issued_(std::move(issued)) {
    std::vector<std::int64_t> numels;
    for (const ParameterSpec& spec : parameters.specs)
        numels.push_back(c10::multiply_integers(spec.sizes));
    buckets_ = plan::cut_buckets(
        numels, bucket_numel > 0 ? bucket_numel : plan::default_bucket_numel(numels));
    bucket_of_.resize(numels.size());
    if (!parameters.is_shared)
        for (const plan::Bucket& bucket : buckets_)
            sums_.push_back(trained_parts(parameters, bucket));
    for (int bucket = 0; bucket < std::ssize(buckets_); ++bucket)
        for (int i = buckets_[bucket].parameter_begin; i < buckets_[bucket].parameter_end; ++i)
            bucket_of_[i] = bucket;
    if (parameters.is_shared) exchange_.emplace(parameters, buckets_, dp);
}

void GradBuckets::begin(int microbatches) {
    missing_.assign(buckets_.size(), 0);
    for (std::size_t i = 0; i < bucket_of_.size(); ++i)
        missing_[bucket_of_[i]] += parameters_.specs[i].uses * microbatches;
    sent_.clear();
    if (!parameters_.flat_own_grad.defined()) return;
    parameters_.stage = this;
    parameters_.grad.assign(bucket_of_.size(), {});
    for (std::size_t i = 0; i < bucket_of_.size(); ++i)
        if (!parameters_.specs[i].frozen) parameters_.own_grad[i].zero_();
    added_.assign(bucket_of_.size(), 0);
    summed_.assign(buckets_.size(), 0);
    fresh_.assign(bucket_of_.size(), false);
}

ops::Sum GradBuckets::open(int parameter) {
    const plan::Bucket& bucket = buckets_[bucket_of_[parameter]];
    if (!parameters_.grad[parameter].defined()) {
        const TensorUseScope exchange(TensorUse::Exchange);
        const at::Tensor stage =
            at::empty({trained_numel(bucket_of_[parameter])}, parameters_.flat_own_grad.options());
        std::int64_t begin = 0;
        for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
            if (parameters_.specs[i].frozen) continue;
            const std::int64_t size = c10::multiply_integers(parameters_.specs[i].sizes);
            parameters_.grad[i] = stage.narrow(0, begin, size).view(parameters_.specs[i].sizes);
            fresh_[i] = true;
            begin += size;
        }
    }
    const bool is_fresh = fresh_[parameter];
    fresh_[parameter] = false;
    return is_fresh ? ops::Sum::Replace : ops::Sum::Add;
}

// Returns true if the bucket has all contributions of at least one micro-batch that is not yet
// summed over the ranks. Also counts this micro-batch as summed. The sum includes contributions of
// later micro-batches, if the bucket already has any.
bool GradBuckets::is_complete(int number) {
    const plan::Bucket& bucket = buckets_[number];
    int whole = std::numeric_limits<int>::max();
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i)
        whole = std::min(whole, added_[i] / parameters_.specs[i].uses);
    return whole > std::exchange(summed_[number], whole);
}

// Prepares the staged gradients of the bucket for its next sum over the ranks. A gradient that got
// no contribution since the previous sum becomes 0, because the previous sum already included its
// contributions of the current micro-batch (is_complete()).
void GradBuckets::fill(const plan::Bucket& bucket) {
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
        if (parameters_.specs[i].frozen) continue;
        if (parameters_.grad[i].defined() && !fresh_[i]) continue;
        open(i);
        parameters_.grad[i].zero_();
    }
}

// Frees the staged gradients of a bucket. Must be called after the sum of the bucket over the ranks
// has started.
void GradBuckets::close(const plan::Bucket& bucket) {
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) parameters_.grad[i].reset();
}

// Sums the partial gradients of a complete bucket over the tensor-parallel ranks, in one reduction.
void GradBuckets::sum_partial(int number) {
    if (tp_ == nullptr || tp_->size() == 1) return;
    const plan::Bucket& bucket = buckets_[number];
    std::vector<at::Tensor> grads, flat;
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
        if (!parameters_.specs[i].partial || parameters_.specs[i].frozen) continue;
        grads.push_back(parameters_.grad[i]);
        flat.push_back(grads.back().flatten());
    }
    if (grads.empty()) return;
    const at::Tensor sum = at::cat(flat);
    sum_over(*tp_, sum, {Site::PartialGrads, number});
    std::int64_t begin = 0;
    for (const at::Tensor& grad : grads) {
        grad.copy_(sum.narrow(0, begin, grad.numel()).view_as(grad));
        begin += grad.numel();
    }
}

// Hashes the gradients of a complete bucket, because its sum over the ranks overwrites them. The
// hashes show which rank's part was wrong (job/repeat_step.hpp).
void GradBuckets::note_sent(const plan::Bucket& bucket) {
    if (dp_.size() == 1 || !parameters_.flat_weight.is_cpu()) return;
    for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i)
        if (!parameters_.specs[i].frozen) sent_.push_back(hash_of(parameters_.grad[i]));
}

void GradBuckets::ready(int parameter) {
    const int number = bucket_of_[parameter];
    const plan::Bucket& bucket = buckets_[number];
    --missing_[number];
    if (parameters_.stage != nullptr) {
        ++added_[parameter];
        if (!is_complete(number)) return;
        fill(bucket);
    } else if (missing_[number] > 0) {
        return;
    }
    sum_partial(number);
    issued_(number);
    note_sent(bucket);
    if (exchange_) exchange_->start_sum(number);
    if (parameters_.stage != nullptr) close(bucket);
    if (exchange_) return;
    if (dp_.size() == 1) return;
    for (const at::Tensor& part : sums_[number])
        tickets_.push_back(dp_.all_reduce(part, Reduce::Sum, {Site::Bucket, number}));
}

void GradBuckets::finish() {
    for (const int missing : missing_) ROLL_CHECK(missing == 0);
    for (const Communicator::Ticket ticket : tickets_) dp_.wait(ticket);
    tickets_.clear();
    if (exchange_) exchange_->finish_sums();
}

bool GradBuckets::is_open() const {
    return std::ranges::any_of(missing_, [](int missing) { return missing > 0; });
}

std::int64_t GradBuckets::trained_numel(int bucket) const {
    std::int64_t size = 0;
    for (int i = buckets_[bucket].parameter_begin; i < buckets_[bucket].parameter_end; ++i)
        if (!parameters_.specs[i].frozen)
            size += c10::multiply_integers(parameters_.specs[i].sizes);
    return size;
}

void GradBuckets::start_gathers() {
    if (exchange_) exchange_->start_gathers();
}

void GradBuckets::await_weights(int parameter) {
    if (exchange_) exchange_->await_weights(parameter);
}

}  // namespace roll::train
