// Converts State to bytes and back. Converts all fields except the index, which is rebuilt.
//
// Fields are found by reflection (Boost.PFR), so that new fields of State are included
// automatically. Each change of a field changes layout(). Bytes of another layout are not read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::ledger {

// Returns an id of this program's layout: a hash of the program's version and of all field types in
// order, with the enumerators' names.
std::uint64_t layout();

using ByteSink = std::function<void(std::string_view piece)>;

// Passes the bytes of State to `sink` in pieces, so that they are never all in memory.
void write_bytes(const core::State& state, const ByteSink& sink);

std::string bytes_of(const core::State& state);

// Reads State from bytes in the layout of this program. Fails with Corrupt if there are too few or
// too many bytes.
Result<core::State> state_from(std::string_view bytes);

}  // namespace roll::ledger
