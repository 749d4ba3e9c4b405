// Limits of a node's slots, GPUs and memory. schemas/job.schema.json has the same limits.
#pragma once

#include <cstdint>

namespace roll::spec {

constexpr int kSlotsMax = 4096;
constexpr int kGpusMax = 64;
constexpr std::int64_t kMemoryMax = std::int64_t{1} << 50;  // maximum memory of a node in bytes

}  // namespace roll::spec
