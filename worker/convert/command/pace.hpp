// Shows a conversion's progress on a terminal.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::convert {

class Pace {
  public:
    // Shows progress if `shows` is true and stderr is a terminal.
    explicit Pace(bool shows);
    ~Pace() { wipe(); }
    Pace(const Pace&) = delete;
    Pace& operator=(const Pace&) = delete;

    // Shows `done` of `total` bytes, at most five times a second.
    void show(std::int64_t done, std::int64_t total);

    void wipe();  // clears the progress line; call wipe() before other output

    double seconds() const;  // seconds since construction

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point began_ = Clock::now();
    Clock::time_point shown_ = {};
    bool shows_ = false;
    bool wipes_ = false;
};

double gigabytes_per_second(std::int64_t bytes, double seconds);

}  // namespace roll::convert
