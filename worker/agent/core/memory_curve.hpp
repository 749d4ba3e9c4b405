// The memory of an attempt over its whole run on this worker, in a bounded number of values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/agent/core/lease.hpp"

namespace roll::agent {

// Value i is the largest memory in MiB that was measured from i * every to (i + 1) * every after
// the first measurement.
struct MemoryCurve {
    std::optional<Instant> begin{};  // time of the first measurement
    Millis every{2000};
    std::vector<std::int64_t> mebibytes{};
};

// Maximum number of values of a curve. Each heartbeat contains the curve, so it must be short.
constexpr std::size_t kMemoryValuesMax = 32;

// Adds a measurement to the curve. `now` must not be earlier than in previous calls. When the curve
// is full, doubles `every` and replaces each pair of neighbouring values by the larger one.
void add_memory(MemoryCurve& curve, std::int64_t bytes, Instant now);

}  // namespace roll::agent
