// How large a node can be, as schemas/job.schema.json says too.
#pragma once

namespace roll::spec {

constexpr int kSlotsMax = 4096;
constexpr int kGpusMax = 64;

}  // namespace roll::spec
