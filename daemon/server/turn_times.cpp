#include "daemon/server/turn_times.hpp"

#include <algorithm>
#include <cmath>

namespace roll::server {

constexpr double kPerDoubling = 8;

void Durations::add(std::chrono::nanoseconds took) {
    const double us = std::max(1.0, static_cast<double>(took.count()) / 1e3);
    const auto bucket = static_cast<std::size_t>(kPerDoubling * std::log2(us));
    ++counts_[std::min(bucket, counts_.size() - 1)];
    recent_.at(count_ % kRecent) = took;
    ++count_;
    sum_ += took;
    longest_ = std::max(longest_, took);
}

Json Durations::json() const {
    const auto ms = [](std::chrono::nanoseconds time) {
        return static_cast<double>(time.count()) / 1e6;
    };
    const double longest_ms = ms(longest_);
    std::size_t bucket = 0;
    for (std::uint64_t above = count_; bucket < counts_.size(); ++bucket) {
        above -= counts_[bucket];
        if (above * 100 <= count_) break;
    }
    const double end_ms = std::exp2(static_cast<double>(bucket + 1) / kPerDoubling) / 1e3;
    return {{"count", count_},
            {"seconds", std::chrono::duration<double>(sum_).count()},
            {"p99_ms", std::min(end_ms, longest_ms)},
            {"longest_ms", longest_ms},
            {"recent_longest_ms", ms(std::ranges::max(recent_))}};
}

void Latencies::add(std::chrono::milliseconds took) {
    took = std::max(took, std::chrono::milliseconds(0));
    const auto limit = std::ranges::lower_bound(kLimitsMs, took.count());
    if (limit != kLimitsMs.end()) ++counts_.at(static_cast<std::size_t>(limit - kLimitsMs.begin()));
    ++count_;
    sum_ += took;
}

Json Latencies::json() const {
    Json buckets = Json::array();
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < kLimitsMs.size(); ++i) {
        below += counts_.at(i);
        buckets.push_back({{"le", static_cast<double>(kLimitsMs.at(i)) / 1e3}, {"count", below}});
    }
    return {{"count", count_},
            {"seconds", std::chrono::duration<double>(sum_).count()},
            {"buckets", std::move(buckets)}};
}

}  // namespace roll::server
