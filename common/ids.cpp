#include "common/ids.hpp"

#include <charconv>

namespace roll {

std::string to_string(const Token& token) {
    return std::to_string(token.incarnation) + "-" + std::to_string(token.attempt);
}

std::optional<Token> parse_token(std::string_view text) {
    Token token;
    const char* const end = text.data() + text.size();
    const auto [dash, error] = std::from_chars(text.data(), end, token.incarnation);
    if (error != std::errc{} || dash == end || *dash != '-') return std::nullopt;
    const auto [rest, error2] = std::from_chars(dash + 1, end, token.attempt);
    if (error2 != std::errc{} || rest != end) return std::nullopt;
    return token;
}

}  // namespace roll
