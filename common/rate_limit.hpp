// Limits the requests a second of each client with a token bucket, so that one client does not slow
// others down.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace roll {

// The class is thread-safe.
class RateLimit {
  public:
    using Instant = std::chrono::steady_clock::time_point;
    // Maximum number of clients with a bucket of their own. All further clients share one bucket.
    static constexpr std::size_t kClientsMax = 10'000;

    // Allows each client `per_second` requests a second, and `burst` requests at once if it saved
    // them up. 0 for `per_second` means no limit.
    RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

    // Takes a request from the client's bucket. Returns nullopt if the request is allowed, else the
    // time until the next request is allowed.
    std::optional<std::chrono::milliseconds> take(const std::string& client, Instant now);

    // Returns whether the client has a bucket of its own, i.e. has sent requests a short time ago.
    bool knows(const std::string& client) const;

    double per_second() const { return per_second_; }

  private:
    struct Bucket {
        double requests;  // requests that are allowed at once
        Instant filled;   // time at which `requests` was computed
    };
    Bucket& bucket_of(const std::string& client, Instant now);
    double requests_of(const Bucket& bucket, Instant now) const;

    double per_second_;
    double burst_;
    mutable std::mutex mutex_;
    std::map<std::string, Bucket> buckets_;
    std::optional<Bucket> shared_;
};

}  // namespace roll
