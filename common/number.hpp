// Parses integers from text.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace roll {

// Parses a text that is only a number. Returns nullopt if the text is not a number, or if the
// number does not fit the type.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
    Number value{};
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
    if (error != std::errc{} || stopped != end) return std::nullopt;
    return value;
}

}  // namespace roll
