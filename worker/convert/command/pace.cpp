#include "worker/convert/command/pace.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace roll::convert {

Pace::Pace(bool shows) : shows_(shows && ::isatty(STDERR_FILENO) != 0) {}

void Pace::wipe() {
    if (wipes_) fmt::print(stderr, "\r\033[K");
    wipes_ = false;
}

void Pace::show(std::int64_t done, std::int64_t total) {
    constexpr std::chrono::milliseconds kBetween(200);
    const Clock::time_point now = Clock::now();
    if (!shows_ || now - shown_ < kBetween) return;
    shown_ = now;
    wipes_ = true;
    fmt::print(stderr, "\r{:.2f} of {:.2f} GB, {:.2f} GB/s\033[K", static_cast<double>(done) / 1e9,
               static_cast<double>(total) / 1e9, gigabytes_per_second(done, seconds()));
}

double Pace::seconds() const {
    return std::chrono::duration<double>(Clock::now() - began_).count();
}

double gigabytes_per_second(std::int64_t bytes, double seconds) {
    return static_cast<double>(bytes) / 1e9 / std::max(seconds, 1e-9);
}

}  // namespace roll::convert
