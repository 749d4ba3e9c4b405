// The values of Megatron's distributed optimizer that are not tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/convert/checkpoint/gradient_buffers.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Returns the state dict of Megatron's distributed optimizer without its tensors. `kind` is its
// sharding type, such as kFullyReshardable. `rates` is train.optimizer of the job that wrote the
// state. Missing keys have the default values of train.optimizer. Before the next step, Megatron's
// scheduler replaces the learning rates and the weight decay. `updates` is the number of updates
// that the optimizer has made.
Json optimizer_values(const Json& rates, std::int64_t updates, const std::string& kind);

// Writes the objects that Megatron stores beside buckets (kind dp_reshardable), and adds them to
// `metadata`. For each (tp, pp) rank, the objects have the optimizer's values and the sizes of its
// buckets. `values`: the key "optimizer" of optimizer_values().
Result<void> write_bucket_objects(const Json& values, const BucketSizes& sizes,
                                  const std::filesystem::path& directory,
                                  formats::DcpMetadata& metadata);

}  // namespace roll::convert
