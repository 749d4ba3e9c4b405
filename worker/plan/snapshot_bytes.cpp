#include "worker/plan/snapshot_bytes.hpp"

#include <algorithm>

#include "worker/plan/element_bytes.hpp"

namespace roll::plan {

std::int64_t snapshot_bytes(const spec::TrainSpec& spec, bool is_lora, std::int64_t weights,
                            std::int64_t states) {
    const std::int64_t dp = spec.parallel.dp;
    const bool by_rows = spec.parallel.zero > 0 || is_lora;
    const std::int64_t most = by_rows ? weights + (states + dp - 1) / dp
                                      : std::max(weights, (weights + states + dp - 1) / dp);
    return std::min(most * main_bytes(spec.precision), spec.checkpoint_buffer_mib << 20);
}

}  // namespace roll::plan
