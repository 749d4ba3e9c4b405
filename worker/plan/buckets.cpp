#include "worker/plan/buckets.hpp"

#include <algorithm>
#include <numeric>

namespace roll::plan {

std::vector<Bucket> cut_buckets(std::span<const std::int64_t> parameter_numels,
                                std::int64_t bucket_numel) {
    std::vector<Bucket> buckets;
    std::int64_t begin =
        std::accumulate(parameter_numels.begin(), parameter_numels.end(), std::int64_t{0});
    Bucket open{begin, begin, 0, static_cast<int>(parameter_numels.size())};
    for (int parameter = open.parameter_end - 1; parameter >= 0; --parameter) {
        begin -= parameter_numels[static_cast<std::size_t>(parameter)];
        if (open.end - begin < bucket_numel && parameter > 0) continue;
        buckets.push_back({begin, open.end, parameter, open.parameter_end});
        open.end = begin;
        open.parameter_end = parameter;
    }
    return buckets;
}

std::int64_t default_bucket_numel(std::span<const std::int64_t> parameter_numels) {
    constexpr std::int64_t kLargest = 1 << 23;
    const auto total =
        std::accumulate(parameter_numels.begin(), parameter_numels.end(), std::int64_t{0});
    for (std::int64_t numel = std::min(kLargest, total / 4); numel > 1; numel /= 2)
        if (cut_buckets(parameter_numels, numel).size() >= 4) return numel;
    return 1;
}

}  // namespace roll::plan
