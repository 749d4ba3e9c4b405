// Writes the objects that Megatron stores beside the buckets of the optimizer's kind
// dp_reshardable.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/convert/checkpoint/gradient_buffers.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Writes for each (tp, pp) rank the values of the optimizer and the sizes of its buckets, and adds
// them to `metadata`. `values`: the key "optimizer" of optimizer_values().
Result<void> write_bucket_objects(const Json& values, const BucketSizes& sizes,
                                  const std::filesystem::path& directory,
                                  formats::DcpMetadata& metadata);

}  // namespace roll::convert
