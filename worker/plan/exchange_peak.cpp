#include "worker/plan/exchange_peak.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

namespace roll::plan {
namespace {

constexpr std::size_t kPendingMost = 2;

std::span<const ExchangeBucket> last_pending(std::span<const ExchangeBucket> buckets) {
    return buckets.last(std::min(kPendingMost, buckets.size()));
}

}  // namespace

Moment exchange_peak(std::span<const ExchangeBucket> buckets, const ExchangeRule& rule,
                     std::span<const PartValues> parts) {
    Moment peak;
    std::deque<std::int64_t> pending;
    if (rule.continued)
        for (const ExchangeBucket& bucket : last_pending(buckets))
            pending.push_back(bucket.buffers);
    auto open = buckets.begin();  // the first incomplete bucket
    const auto note = [&](std::int64_t values, std::int64_t started) {
        const bool is_staged = rule.staged && open != buckets.end();
        const std::int64_t of_embedding =
            is_staged && rule.tied && open + 1 != buckets.end() ? buckets.back().gradients : 0;
        const Moment now{values, std::accumulate(pending.begin(), pending.end(), started) +
                                     (is_staged ? open->gradients : 0) + of_embedding};
        if (now.total() > peak.total()) peak = now;
    };
    std::int64_t layer = std::ssize(parts) - 2;
    for (const PartValues& part : parts) {
        note(part.during, 0);
        for (; open != buckets.end() && open->layer >= layer; ++open) {
            if (open->buffers == 0) continue;
            if (pending.size() >= kPendingMost) pending.pop_front();
            note(part.after, open->buffers);
            pending.push_back(open->buffers);
        }
        --layer;
    }
    return peak;
}

std::int64_t pending_at_end(std::span<const ExchangeBucket> buckets) {
    std::int64_t size = 0;
    for (const ExchangeBucket& bucket : last_pending(buckets)) size += bucket.buffers;
    return size;
}

}  // namespace roll::plan
