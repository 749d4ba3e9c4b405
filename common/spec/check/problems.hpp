// Collects problems.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/spec/schema/problem.hpp"

namespace roll::spec {

inline void append(std::vector<Problem>& all, std::vector<Problem> more) {
    for (Problem& problem : more) all.push_back(std::move(problem));
}

// Adds a problem if the number `section.key` is not in the range from `least` to `most`. For
// a valid number, makes no strings, because rolld checks about twenty numbers of each submitted
// job.
inline void check_range(std::string_view section, std::string_view key, std::int64_t value,
                        std::int64_t least, std::int64_t most, std::vector<Problem>& problems) {
    if (value >= least && value <= most) return;
    problems.push_back({fmt::format("{}{}{}", section, section.empty() ? "" : ".", key),
                        fmt::format("is {}; allowed: {} to {}", value, least, most)});
}

}  // namespace roll::spec
