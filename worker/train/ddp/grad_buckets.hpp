// A chunk's flat gradient cut into buckets; a bucket is all-reduced over dp as soon as the last
// contribution to it is there, while backward goes on.
//
// Buckets fill from the back of the flat tensor to its front, in an order that follows from the
// schedule alone, so all replicas issue the same reductions in the same order.
#pragma once

#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

class GradBuckets {
  public:
    GradBuckets(const Parameters& parameters, std::int64_t bucket_numel, Communicator& dp);

    void begin(int microbatches);  // zeroes the gradients
    void ready(int parameter);     // one contribution to it has been added
    void finish();                 // waits; aborts if a contribution never came

  private:
    struct Bucket {
        at::Tensor grad;
        int uses;     // contributions in one microbatch
        int missing;  // in this step
    };

    at::Tensor flat_grad_;
    Communicator& dp_;
    std::vector<Bucket> buckets_;
    std::vector<std::size_t> bucket_of_;  // by parameter
    std::vector<Communicator::Ticket> tickets_;
};

}  // namespace roll::train
