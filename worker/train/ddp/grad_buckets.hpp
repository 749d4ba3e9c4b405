// A chunk's flat gradient in the buckets of plan::cut_buckets; a bucket is all-reduced over dp as
// soon as the last contribution to it is there, while backward goes on.
//
// A frozen parameter's gradient is 0 on all of them, and is not sent.
//
// When a bucket is complete follows from the schedule alone, so all replicas issue the same
// reductions in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/plan/buckets.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

class GradBuckets {
  public:
    // bucket_numel 0: as default_bucket_numel has it. issued(bucket) tells of each reduction; with
    // one replica there is none, and it is told all the same.
    GradBuckets(const Parameters& parameters, std::int64_t bucket_numel, Communicator& dp,
                std::function<void(int bucket)> issued);

    void begin(int microbatches);  // a step of so many contributions of each use
    void ready(int parameter);     // one contribution to it has been added
    void finish();                 // waits; aborts if a contribution never came

    const std::vector<plan::Bucket>& buckets() const { return buckets_; }

  private:
    const Parameters& parameters_;
    Communicator& dp_;
    std::function<void(int)> issued_;
    std::vector<plan::Bucket> buckets_;
    std::vector<std::vector<at::Tensor>> sums_;  // by bucket: its parts without frozen ones
    std::vector<int> bucket_of_;                 // by parameter
    std::vector<int> missing_;                   // contributions, by bucket
    std::vector<Communicator::Ticket> tickets_;
};

}  // namespace roll::train
