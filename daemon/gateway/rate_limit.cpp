#include "daemon/gateway/rate_limit.hpp"

#include <algorithm>

namespace roll::gateway {

bool RateLimit::take(const std::string& user, Instant now) {
    if (per_second_ <= 0) return true;
    const auto [found, is_new] = buckets_.try_emplace(user, Bucket{burst_, now});
    Bucket& bucket = found->second;
    const double passed = std::chrono::duration<double>(now - bucket.filled_at).count();
    bucket.tokens = std::min(burst_, bucket.tokens + std::max(passed, 0.0) * per_second_);
    bucket.filled_at = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
}

}  // namespace roll::gateway
