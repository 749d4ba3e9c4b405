// How a flat gradient is cut into buckets, each reduced over dp as one. Pure.
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

// Whole parameters, from the back of the flat tensor to its front, as backward completes them; a
// bucket is closed when it holds at least bucket_numel elements. The last may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::int64_t> parameter_numels,
                                std::int64_t bucket_numel);

// A size that gives a model of this many elements at least four buckets, if its parameters can be
// cut so, and never larger ones than the network needs.
std::int64_t default_bucket_numel(std::span<const std::int64_t> parameter_numels);

}  // namespace roll::plan
