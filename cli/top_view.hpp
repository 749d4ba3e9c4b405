// Formats the full-screen view of `rollctl top` as lines of text. Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Metrics that one training job has reported so far, oldest first.
struct Curve {
    std::vector<double> loss;
    std::vector<double> tokens_per_second;
    std::vector<double> gpu_percent{};  // GPU load in percent, sampled every two seconds
};

inline constexpr int kNodesShown = 8;

struct TopData {
    std::uint64_t running = 0;  // number of running jobs
    std::uint64_t queued = 0;   // number of queued jobs
    // The jobs of the reply to `jobs`, running jobs first. A long queue is cut off.
    Json jobs = Json::array();
    Json nodes = Json::array();  // rows of the reply to `nodes`; may lack some nodes
    Json all = Json::object();   // totals of all nodes, from the reply to `nodes`
    std::map<std::uint64_t, Curve> curves;
    std::deque<std::string> events;  // newest events, one line each, newest last
};

// Draws the newest `width` values as block characters with 8 heights. The heights range over
// `bounds`, or from the smallest to the largest value if `bounds` is not given. Empty if there are
// no values.
std::string sparkline(const std::vector<double>& values, std::size_t width,
                      std::optional<std::pair<double, double>> bounds = std::nullopt);

// Returns at most `height` lines of at most `width` characters: a summary, the nodes, the running
// jobs, the queued jobs, and the newest events on the remaining lines.
std::vector<std::string> top_lines(const TopData& data, std::size_t width, std::size_t height,
                                   Time now);

}  // namespace roll::cli
