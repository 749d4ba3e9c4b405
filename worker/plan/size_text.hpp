// Writes numbers for people.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace roll::plan {

// Returns a number in the largest unit in which it is at least 1, such as "458 MiB" or "5.7 M".
// `step` is the ratio of two adjacent units.
std::string scaled(double value, double step, std::initializer_list<const char*> units);

// Returns a number of bytes as text, such as "458 MiB".
std::string bytes_text(std::int64_t bytes);

// Returns a number with commas, such as "5,704,704".
std::string count_text(std::int64_t count);

}  // namespace roll::plan
