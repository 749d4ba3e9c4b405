// Frames as no peer of ours makes them: cut, two as one, with something behind. Nobody may
// understand one; whoever gets one goes on as if it had not come.
#pragma once

#include <string>
#include <vector>

namespace roll::sim {

// `number` says where it is cut.
inline std::vector<std::string> broken_frames(const std::string& frame, long number) {
    return {frame.substr(0, static_cast<std::size_t>(number) % frame.size()), frame + frame,
            frame + "x"};
}
constexpr long kBrokenOneIn = 8;  // messages: to refuse them takes longer than to understand one

}  // namespace roll::sim
