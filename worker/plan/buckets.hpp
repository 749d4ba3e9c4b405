// Cuts a flat gradient into buckets. Each bucket is one all-reduce over dp. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roll::plan {

struct Bucket {
    std::int64_t begin = 0;  // [begin, end) in elements of the flat gradient
    std::int64_t end = 0;
    int parameter_begin = 0;
    int parameter_end = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Returns the buckets, from the back of the flat gradient to its front, which is the order in which
// backward completes it. A bucket holds whole parameters and is closed once it has at least
// `bucket_numel` elements; the last may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::int64_t> parameter_numels,
                                std::int64_t bucket_numel);

// Returns a bucket size, in elements, that gives the model at least four buckets if its parameters
// can be cut that way. It is at most 2^23, because the network does not need larger buckets.
std::int64_t default_bucket_numel(std::span<const std::int64_t> parameter_numels);

}  // namespace roll::plan
