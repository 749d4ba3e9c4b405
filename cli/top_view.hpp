// The full-screen view of `rollctl top` as lines of text. Pure.
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

// What a training job has reported so far, oldest first.
struct Curve {
    std::vector<double> loss;
    std::vector<double> tokens_per_second;
    std::vector<double> gpu_percent{};  // of each second look at it
};

inline constexpr int kNodesShown = 8;

struct TopData {
    std::uint64_t running = 0;   // jobs in all
    std::uint64_t queued = 0;    // the same
    Json jobs = Json::array();   // as `jobs` replies, running ones first; of many some
    Json nodes = Json::array();  // as `nodes` replies; of many some
    Json all = Json::object();   // the same: what all of them have
    std::map<std::uint64_t, Curve> curves;
    std::deque<std::string> events;  // a line each, newest last
};

// The newest `width` values as blocks of eighths, from the smallest to the largest of them or
// within `bounds`; "" for none.
std::string sparkline(const std::vector<double>& values, std::size_t width,
                      std::optional<std::pair<double, double>> bounds = std::nullopt);

// At most `height` lines of at most `width` characters: a summary, the nodes, running jobs before
// queued ones, and in what is left the newest events.
std::vector<std::string> top_lines(const TopData& data, std::size_t width, std::size_t height,
                                   Time now);

}  // namespace roll::cli
