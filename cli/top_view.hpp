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

// Metrics that a training job has reported so far, oldest first.
struct Curve {
    std::vector<double> loss;
    std::vector<double> tokens_per_second;
    std::vector<double> gpu_percent{};  // sampled every two seconds
};

inline constexpr int kNodesShown = 8;

struct TopData {
    std::uint64_t running = 0;   // number of running jobs
    std::uint64_t queued = 0;    // number of queued jobs
    Json jobs = Json::array();   // from the reply of `jobs`, running ones first; maybe not all
    Json nodes = Json::array();  // from the reply of `nodes`; maybe not all
    Json all = Json::object();   // totals over all nodes, from the reply of `nodes`
    std::map<std::uint64_t, Curve> curves;
    std::deque<std::string> events;  // one line each, newest last
};

// Draws the newest `width` values as block characters of 8 heights. The range is `bounds`, else the
// values' minimum to maximum. Empty without values.
std::string sparkline(const std::vector<double>& values, std::size_t width,
                      std::optional<std::pair<double, double>> bounds = std::nullopt);

// Returns at most `height` lines of at most `width` characters: a summary, the nodes, running jobs,
// queued jobs, and the newest events in the remaining lines.
std::vector<std::string> top_lines(const TopData& data, std::size_t width, std::size_t height,
                                   Time now);

}  // namespace roll::cli
