// A token bucket a user: one that asks faster than rolld should serve it is told to wait, so that
// it does not slow the others. Pure: time comes as an argument.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace roll::gateway {

class RateLimit {
  public:
    using Instant = std::chrono::steady_clock::time_point;

    // So many requests a second for ever, and `burst` of them at once. 0 a second: no limit.
    RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

    // True: the request counts and may go on. False: it is one too many.
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
