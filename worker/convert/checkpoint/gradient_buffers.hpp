// Megatron's gradient buffers, in which the optimizer's state of kind dp_reshardable is stored.
// Each chunk of a model rank has one buffer. A buffer has the chunk's parameters, one after the
// other, in the reverse order of Megatron's modules. It is cut into buckets
// (megatron/core/distributed/param_and_grad_buffer.py). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// The beginning of the keys of all buckets.
inline constexpr const char* kBucketKeys = "optimizer.distributed.";

// The gradient buffer of a model chunk.
struct GradientBuffer {
    int group = 0;                          // number of the model rank: tp + pp * TP
    int number = 0;                         // number of the chunk (virtual pipeline stage)
    std::string place;                      // the chunk and its file, for messages
    std::vector<const Stored*> parameters;  // in the order of the buffer
};

// Returns the gradient buffers of a layout. `ranks`: the tensors of all rank files of this layout
// (mca_layout()); the result points to them. Fails with InvalidArgument if the place of a tensor
// among Megatron's modules is unknown; the message names the tensor.
Result<std::vector<GradientBuffer>> gradient_buffers(const std::vector<Stored>& ranks,
                                                     const formats::McaLayout& layout);

// Returns the first element at or after `at` at which Megatron lets a parameter begin.
std::int64_t aligned(std::int64_t at);

// How a run of Megatron forms its buckets.
struct BucketRule {
    // Number of elements with which a bucket is full (Megatron's ddp_bucket_size); 0: a buffer is
    // one bucket. Megatron has several buckets only in the first chunk of the first stage.
    std::int64_t size = 0;
    tensor::DType weights = tensor::DType::F32;
    tensor::DType gradients = tensor::DType::F32;
};

// The sizes of a checkpoint's buckets, without the padding at their ends.
struct BucketSizes {
    tensor::DType weights = tensor::DType::F32;
    tensor::DType gradients = tensor::DType::F32;
    std::map<int, std::vector<std::vector<std::int64_t>>> elements;  // [group][buffer][bucket]
};

struct BucketLayout {
    // The parameters in all buckets. The gaps between parameters are tensors without pieces. The
    // name of each tensor is the key of its bucket without the name of a state.
    std::vector<Stored> tensors;
    BucketSizes sizes;
};

// Returns the layout of one optimizer state in buckets. `is_tied`: the output layer is the
// embedding. `file`: the file of all tensors.
Result<BucketLayout> bucket_layout(const std::vector<Stored>& ranks,
                                   const formats::McaLayout& layout, bool is_tied,
                                   const BucketRule& rule, const std::string& file);

}  // namespace roll::convert
