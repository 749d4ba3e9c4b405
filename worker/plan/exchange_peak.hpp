// Finds the moment of a step at which a rank needs the most memory, if data-parallel ranks exchange
// gradients in buckets (ZeRO). When the buffers of the last buckets exist, backward has already
// freed the activations of most layers. Therefore, the largest size of the buffers and the largest
// size of the activations must not be added. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace roll::plan {

// A bucket of one chunk. `layer`: the part of the chunk whose backward completes the bucket. This
// is the index of a layer, the number of layers for the output layer, or -1 for the embedding.
struct ExchangeBucket {
    std::int64_t layer = 0;
    std::int64_t gradients = 0;  // size of the gradients of its trained parameters
    std::int64_t buffers = 0;    // size of its buffers while its gradients are summed
};

struct ExchangeRule {
    bool staged = false;     // gradients exist only until their bucket is complete (ZeRO-2)
    bool continued = false;  // sums of the previous micro-batch are pending
    bool tied = false;       // the output layer and the embedding share one gradient
};

// Sizes of the activations and temporary values during the backward of a part, and after it.
struct PartValues {
    std::int64_t during = 0, after = 0;
};

// Sizes at one moment. `values`: the activations and temporary values. `exchange`: the gradients of
// incomplete buckets, if they are staged, and the buffers of pending sums.
struct Moment {
    std::int64_t values = 0, exchange = 0;
    std::int64_t total() const { return values + exchange; }
};

// Returns the moment with the largest total in the backward of one micro-batch. `buckets` and
// `parts` are in the order of backward; `parts` begins with the output layer and ends with the
// embedding. At most two sums are pending: before the rank starts a third sum, it waits for the
// oldest.
Moment exchange_peak(std::span<const ExchangeBucket> buckets, const ExchangeRule& rule,
                     std::span<const PartValues> parts);

// Returns the size of the buffers that are pending after the backward of a micro-batch.
std::int64_t pending_at_end(std::span<const ExchangeBucket> buckets);

}  // namespace roll::plan
