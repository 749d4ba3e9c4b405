// What a job's program says of its progress. Any program may say anything: it is passed on only in
// a shape that every program of Roll can hold.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll::protocol {

constexpr std::size_t kProgressBytesMax = 4096;     // of a program's own words
constexpr std::size_t kHeardBytesMax = 512u << 10;  // with what roll-worker adds of each rank

// An object that does not nest deeper than 8 levels. Error Corrupt: something else, or larger.
Result<Json> read_progress(std::string_view text, std::size_t bytes_max);

}  // namespace roll::protocol
