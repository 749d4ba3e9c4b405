// Cuts a flat gradient into buckets. Each bucket is one all-reduce over dp. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roll::plan {

struct Bucket {
    std::int64_t begin = 0;  // elements of the flat gradient
    std::int64_t end = 0;
    int parameter_begin = 0;
    int parameter_end = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Buckets hold whole parameters, from the back of the flat tensor to its front, in the order in
// which backward completes them. A bucket is closed once it holds at least `bucket_numel` elements;
// the last may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::int64_t> parameter_numels,
                                std::int64_t bucket_numel);

// Returns a bucket size that gives the model at least four buckets, if its parameters can be cut
// that way, and no bucket larger than the network needs.
std::int64_t default_bucket_numel(std::span<const std::int64_t> parameter_numels);

}  // namespace roll::plan
