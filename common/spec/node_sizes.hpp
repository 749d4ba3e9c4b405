// Limits of a node's size; the same as in schemas/job.schema.json.
#pragma once

namespace roll::spec {

constexpr int kSlotsMax = 4096;
constexpr int kGpusMax = 64;

}  // namespace roll::spec
