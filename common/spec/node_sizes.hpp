// Limits of a node's slots and GPUs. schemas/job.schema.json has the same limits.
#pragma once

namespace roll::spec {

constexpr int kSlotsMax = 4096;
constexpr int kGpusMax = 64;

}  // namespace roll::spec
