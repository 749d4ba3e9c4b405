// Aligns the regular heartbeats of all workers to a grid of half seconds of the wall clock.
// 10,000 workers then wake rolld a few times a second and not once per heartbeat; half of a
// heartbeat's cost is the wake-up.
#pragma once

#include <chrono>

namespace roll::agent {

constexpr std::chrono::milliseconds kBeatGrid{500};
constexpr std::chrono::milliseconds kBeatOnGrid{1000};  // shorter intervals are not aligned

// Returns the latest grid point at or before `due`; the wall clock is `ahead` of this clock.
// Never returns a later time, so that late wake-ups do not move a heartbeat off its grid point.
constexpr std::chrono::milliseconds on_beat_grid(std::chrono::milliseconds due,
                                                 std::chrono::milliseconds ahead,
                                                 std::chrono::milliseconds beat) {
    return beat < kBeatOnGrid ? due : due - (due + ahead) % kBeatGrid;
}

}  // namespace roll::agent
