// Frames that no peer sends: cut, doubled, and with a byte added. Every decoder must refuse them.
#pragma once

#include <string>
#include <vector>

namespace roll::sim {

// Returns the broken forms of `frame`. `number` decides where it is cut.
inline std::vector<std::string> broken_frames(const std::string& frame, long number) {
    return {frame.substr(0, static_cast<std::size_t>(number) % frame.size()), frame + frame,
            frame + "x"};
}
// Every 8th message is also broken, because refusing takes longer than decoding.
constexpr long kBrokenOneIn = 8;

}  // namespace roll::sim
