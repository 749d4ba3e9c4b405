// Converts between an enumerator and its name. The names are in a list that has the order of the
// enumerators.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace roll {

template <class Enum, std::size_t N>
constexpr const char* name_in(const std::array<const char*, N>& names, Enum value) {
    return names.at(static_cast<std::size_t>(value));
}

// Returns the enumerator with this name; nullopt if there is none.
template <class Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<const char*, N>& names, std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<Enum>(found - names.begin());
}

}  // namespace roll
