// Collects problems.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/spec/schema/problem.hpp"

namespace roll::spec {

inline void append(std::vector<Problem>& all, std::vector<Problem> more) {
    for (Problem& problem : more) all.push_back(std::move(problem));
}

// Adds a problem if a number is not in the range from `least` to `most`.
inline void check_range(const std::string& path, std::int64_t value, std::int64_t least,
                        std::int64_t most, std::vector<Problem>& problems) {
    if (value < least || value > most)
        problems.push_back({path, fmt::format("is {}; allowed: {} to {}", value, least, most)});
}

}  // namespace roll::spec
