#include "common/rate_limit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace roll {

double RateLimit::requests_of(const Bucket& bucket, Instant now) const {
    const std::chrono::duration<double> passed = now - bucket.filled;
    return std::min(burst_, bucket.requests + std::max(0.0, passed.count()) * per_second_);
}

RateLimit::Bucket& RateLimit::bucket_of(const std::string& client, Instant now) {
    const auto found = buckets_.find(client);
    if (found != buckets_.end()) return found->second;
    if (buckets_.size() >= kClientsMax) {
        // A full bucket is the same as no bucket, so remove the clients with a full bucket.
        std::erase_if(buckets_,
                      [&](const auto& one) { return requests_of(one.second, now) >= burst_; });
    }
    if (buckets_.size() >= kClientsMax) {
        if (!shared_) shared_ = Bucket{burst_, now};
        return *shared_;
    }
    return buckets_.emplace(client, Bucket{burst_, now}).first->second;
}

std::optional<std::chrono::milliseconds> RateLimit::take(const std::string& client, Instant now) {
    if (per_second_ <= 0) return std::nullopt;
    const std::lock_guard lock(mutex_);
    Bucket& bucket = bucket_of(client, now);
    bucket = {requests_of(bucket, now), now};
    if (bucket.requests >= 1) {
        bucket.requests -= 1;
        return std::nullopt;
    }
    const double seconds = (1 - bucket.requests) / per_second_;
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(1000 * seconds)));
}

bool RateLimit::knows(const std::string& client) const {
    const std::lock_guard lock(mutex_);
    return buckets_.contains(client);
}

}  // namespace roll
