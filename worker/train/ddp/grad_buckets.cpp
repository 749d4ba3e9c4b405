#include "worker/train/ddp/grad_buckets.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {

GradBuckets::GradBuckets(const Parameters& p, std::int64_t bucket_numel, Communicator& dp)
    : flat_grad_(p.flat_grad),
      dp_(dp),
      bucket_of_(p.specs.size()) {
    std::int64_t end = p.flat_grad.numel(), begin = end;
    int uses = 0;
    for (auto i = std::ssize(p.specs) - 1; i >= 0; --i) {
        begin -= p.grad[i].numel();
        uses += p.specs[i].uses;
        bucket_of_[i] = buckets_.size();
        if (end - begin < bucket_numel && i > 0) continue;
        buckets_.push_back({p.flat_grad.narrow(0, begin, end - begin), uses, 0});
        end = begin;
        uses = 0;
    }
}

void GradBuckets::begin(int microbatches) {
    flat_grad_.zero_();
    for (Bucket& bucket : buckets_) bucket.missing = bucket.uses * microbatches;
}

void GradBuckets::ready(int parameter) {
    Bucket& bucket = buckets_[bucket_of_[parameter]];
    if (--bucket.missing == 0 && dp_.size() > 1) tickets_.push_back(dp_.all_reduce(bucket.grad));
}

void GradBuckets::finish() {
    for (const Bucket& bucket : buckets_) ROLL_CHECK(bucket.missing == 0);
    for (const Communicator::Ticket ticket : tickets_) dp_.wait(ticket);
    tickets_.clear();
}

}  // namespace roll::train
