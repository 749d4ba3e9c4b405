// Detects steps of the system clock, by comparing the wall clock with the monotonic clock.
//
// State stores wall clock times; durations (time limits, back-offs, exclusions) are differences
// of them. A step is reported to the core (Tick), which shifts all stored times by it, so that
// durations follow the monotonic clock.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/time.hpp"

namespace roll::engine {

class ClockWatch {
  public:
    using Milliseconds = std::chrono::milliseconds;

    // `steady`: a monotonic clock, the same in each call.
    ClockWatch(Time wall, Milliseconds steady) : ahead_(wall.time_since_epoch() - steady) {}

    // Returns the step of the wall clock since the last settle(); 0 if it is less than a second.
    Milliseconds stepped(Time wall, Milliseconds steady) const {
        return step_of(wall.time_since_epoch() - steady - ahead_);
    }
    // Call once the step is durable.
    void settle(Milliseconds step) { ahead_ += step; }

    // Used at rolld's start. Returns `now` minus `written`, the time of the ledger's last write, if
    // that is negative; else 0, because only the wall clock measures the time while rolld is down.
    static Milliseconds step_back(Time now, Time written) {
        return step_of(std::min(now - written, Milliseconds(0)));
    }

  private:
    static Milliseconds step_of(Milliseconds difference) {
        return std::chrono::abs(difference) < std::chrono::seconds(1) ? Milliseconds(0)
                                                                      : difference;
    }
    Milliseconds ahead_;
};

}  // namespace roll::engine
