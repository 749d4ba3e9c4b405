// Cuts a flat gradient into buckets. Each bucket is reduced by one all-reduce over the
// data-parallel ranks (dp). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roll::plan {

struct Bucket {
    std::int64_t begin = 0;  // the bucket is [begin, end), in elements of the flat gradient
    std::int64_t end = 0;
    int parameter_begin = 0;
    int parameter_end = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Returns the buckets from the end of the flat gradient to its beginning, because backward
// completes the gradient in this order. A bucket holds whole parameters. It is closed once it has
// at least `bucket_numel` elements. The last bucket may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::int64_t> parameter_numels,
                                std::int64_t bucket_numel);

// Returns a bucket size in elements for which the gradient has at least four buckets, if the sizes
// of the parameters allow it. The size is at most 2^23, because larger buckets make no better use
// of the network.
std::int64_t default_bucket_numel(std::span<const std::int64_t> parameter_numels);

}  // namespace roll::plan
