// A token bucket per user. It refuses requests above a user's rate, so that one user does not slow
// others down. The functions are pure: the time is an argument.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace roll::gateway {

class RateLimit {
  public:
    using Instant = std::chrono::steady_clock::time_point;

    // Allows `per_second` requests per second on average and `burst` requests at once. 0 for
    // `per_second` means no limit.
    RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

    // Returns whether the user may make a request now. If so, counts the request.
    bool take(const std::string& user, Instant now);

    double per_second() const { return per_second_; }

  private:
    struct Bucket {
        double tokens = 0;
        Instant filled_at{};
    };
    double per_second_;
    double burst_;
    std::map<std::string, Bucket> buckets_;
};

}  // namespace roll::gateway
