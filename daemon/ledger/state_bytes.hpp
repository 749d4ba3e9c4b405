// State as bytes and back: every field of every part of it but the index, which is made anew.
//
// Fields are found by reflection (Boost.PFR), so one that is added to State is saved without a line
// here. `layout()` changes with any of them: bytes of another layout are not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "daemon/core/state.hpp"

namespace roll::ledger {

// Of this program: its version, and the types of all fields by order, enumerators by name.
std::uint64_t layout();

std::string bytes_of(const core::State& state);

// Corrupt: the bytes end too early, or are too many. They must be of this layout.
Result<core::State> state_from(std::string_view bytes);

}  // namespace roll::ledger
