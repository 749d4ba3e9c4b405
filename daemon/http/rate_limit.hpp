// Limits the requests a second of each client with a token bucket. A client may save up unused
// requests for kBurstSeconds, so that a page that loads many files at once is not delayed.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace roll::http {

// The class is thread-safe.
class RateLimit {
  public:
    using Instant = std::chrono::steady_clock::time_point;
    static constexpr int kBurstSeconds = 20;
    // Maximum number of clients with a bucket of their own. All further clients share one bucket.
    static constexpr std::size_t kClientsMax = 10'000;

    explicit RateLimit(int per_second) : per_second_(per_second) {}

    // Takes a request from the client's bucket. Returns nullopt if the request is allowed, else the
    // time until the next request is allowed.
    std::optional<std::chrono::milliseconds> take(const std::string& client, Instant now);

    // Returns whether the client has a bucket of its own, i.e. has sent requests a short time ago.
    bool knows(const std::string& client) const;

    int per_second() const { return per_second_; }

  private:
    struct Bucket {
        double requests;  // requests that are allowed at once
        Instant filled;   // time at which `requests` was computed
    };
    double burst() const { return static_cast<double>(per_second_) * kBurstSeconds; }
    Bucket& bucket_of(const std::string& client, Instant now);
    double requests_of(const Bucket& bucket, Instant now) const;

    int per_second_;
    mutable std::mutex mutex_;
    std::map<std::string, Bucket> buckets_;
    std::optional<Bucket> shared_;
};

// Returns the client that an address stands for: an IPv4 address, or the first 64 bits of an IPv6
// address, because a single machine has all addresses with these 64 bits.
std::string client_of_address(const std::string& address);

}  // namespace roll::http
