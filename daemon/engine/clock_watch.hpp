// Notices when the system's clock is set: the wall clock then moves against the monotonic one.
//
// State's instants are of the wall clock, and what lasts (time limits, back-offs, exclusions) is
// measured between them. A step of the clock is told to the core (Tick), which moves all instants
// by it, so that durations go by the monotonic clock.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/time.hpp"

namespace roll::engine {

class ClockWatch {
  public:
    using Milliseconds = std::chrono::milliseconds;

    // `steady`: of any monotonic clock, the same at each call.
    ClockWatch(Time wall, Milliseconds steady) : ahead_(wall.time_since_epoch() - steady) {}

    // By how much the clock has been set since the last settle(); 0: by less than a second.
    Milliseconds stepped(Time wall, Milliseconds steady) const {
        return step_of(wall.time_since_epoch() - steady - ahead_);
    }
    // The step is durable.
    void settle(Milliseconds step) { ahead_ += step; }

    // For rolld's start: how far `now` lies before `written`, when the ledger was last written;
    // 0: behind it. While rolld is down only the wall clock can tell how long.
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
