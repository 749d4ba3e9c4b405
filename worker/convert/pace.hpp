// How fast a conversion goes, for people: a line on a terminal while it runs.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::convert {

class Pace {
  public:
    // Shows lines if `shows` and stderr is a terminal.
    explicit Pace(bool shows);
    ~Pace() { wipe(); }
    Pace(const Pace&) = delete;
    Pace& operator=(const Pace&) = delete;

    // So many of so many bytes are done; a line five times a second at most.
    void show(std::int64_t done, std::int64_t total);

    void wipe();  // the line, for what comes next

    double seconds() const;  // since it began

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point began_ = Clock::now();
    Clock::time_point shown_ = {};
    bool shows_ = false;
    bool wipes_ = false;
};

double gigabytes_per_second(std::int64_t bytes, double seconds);

}  // namespace roll::convert
