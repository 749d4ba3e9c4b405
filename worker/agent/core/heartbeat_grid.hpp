// Aligns the regular heartbeats of all workers to a grid: the half seconds of the wall clock.
// 10,000 workers then wake rolld a few times a second instead of once per heartbeat. Half of a
// heartbeat's cost is the wake-up.
#pragma once

#include <chrono>

namespace roll::agent {

constexpr std::chrono::milliseconds kHeartbeatGrid{500};
// Smallest heartbeat interval that is aligned to the grid
constexpr std::chrono::milliseconds kHeartbeatOnGrid{1000};

// Returns the latest grid point at or before `due`. `due` and the result are times of this
// machine's monotonic clock; `ahead` is the wall clock minus the monotonic clock. The result is
// never later than `due`, so a late wake-up does not shift later heartbeats.
constexpr std::chrono::milliseconds on_heartbeat_grid(std::chrono::milliseconds due,
                                                      std::chrono::milliseconds ahead,
                                                      std::chrono::milliseconds heartbeat) {
    return heartbeat < kHeartbeatOnGrid ? due : due - (due + ahead) % kHeartbeatGrid;
}

}  // namespace roll::agent
