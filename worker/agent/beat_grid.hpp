// Workers beat in the same moments, two a second of the wall clock: ten thousand of them wake rolld
// a few times a second then, not once for each heartbeat. Half of what one costs is the waking.
#pragma once

#include <chrono>

namespace roll::agent {

constexpr std::chrono::milliseconds kBeatGrid{500};
constexpr std::chrono::milliseconds kBeatOnGrid{1000};  // shorter ones come when they are due

// The latest such moment that is not after `due`, on a clock that the wall's is `ahead` of. Never
// later than due, so that what is on the grid stays there, whatever it took to wake up.
constexpr std::chrono::milliseconds on_beat_grid(std::chrono::milliseconds due,
                                                 std::chrono::milliseconds ahead,
                                                 std::chrono::milliseconds beat) {
    return beat < kBeatOnGrid ? due : due - (due + ahead) % kBeatGrid;
}

}  // namespace roll::agent
