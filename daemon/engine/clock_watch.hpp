// Detects steps of the system clock by comparing the wall clock with the monotonic clock.
//
// State has wall clock times, and durations (time limits, back-offs, exclusions) are differences of
// such times. Each step is reported to the core (Tick), which shifts all stored times by the step.
// Durations therefore follow the monotonic clock.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/time.hpp"

namespace roll::engine {

class ClockWatch {
  public:
    using Milliseconds = std::chrono::milliseconds;

    // `steady` is the time of a monotonic clock. Later calls must use the same clock.
    ClockWatch(Time wall, Milliseconds steady) : ahead_(wall.time_since_epoch() - steady) {}

    // Returns the step of the wall clock since the last settle(); 0 if the step is less than a
    // second.
    Milliseconds stepped(Time wall, Milliseconds steady) const {
        return step_of(wall.time_since_epoch() - steady - ahead_);
    }
    // Records that the core has applied the step. Call settle() once the step is durable.
    void settle(Milliseconds step) { ahead_ += step; }

    // Returns the (negative) step by which the clock was set back while rolld did not run: `now` -
    // `written`. `written` is the time of the ledger's last write. Returns 0 if `now` is later than
    // `written`, because a step forward looks like time in which rolld was down.
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
