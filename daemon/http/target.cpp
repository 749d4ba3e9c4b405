#include "daemon/http/target.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace roll::http {
namespace {

// Replaces %XX by the byte XX, and '+' by `plus`.
Result<std::string> decoded(std::string_view text, char plus) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '+') c = plus;
        if (c == '%') {
            unsigned value = 0;
            const std::string_view digits = text.substr(i + 1, 2);
            const char* end = digits.data() + digits.size();
            if (digits.size() != 2 || std::from_chars(digits.data(), end, value, 16).ptr != end)
                return fail(ErrorCode::InvalidArgument,
                            "the address has a '%' without two hexadecimal digits after it");
            c = static_cast<char>(value);
            i += 2;
        }
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            return fail(ErrorCode::InvalidArgument, "the address has a control character");
        result += c;
    }
    return result;
}

// Removes the part of `rest` before the first `separator`, and the separator itself. Returns the
// removed part.
std::string_view next_part(std::string_view& rest, char separator) {
    const std::size_t end = rest.find(separator);
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return part;
}

}  // namespace

Result<Target> parse_target(std::string_view target) {
    if (!target.starts_with('/'))
        return fail(ErrorCode::InvalidArgument, "the address does not begin with '/'");
    Target result;
    std::string_view query = target;
    std::string_view path = next_part(query, '?').substr(1);
    while (!path.empty()) {
        ROLL_TRY(std::string segment, decoded(next_part(path, '/'), '+'));
        result.path.push_back(std::move(segment));
    }
    while (!query.empty()) {
        std::string_view value = next_part(query, '&');
        ROLL_TRY(const std::string key, decoded(next_part(value, '='), ' '));
        ROLL_TRY(std::string text, decoded(value, ' '));
        if (!result.query.emplace(key, std::move(text)).second)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("the address has the parameter {} twice", key.substr(0, 60)));
    }
    return result;
}

std::string client_of_address(const std::string& address) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return address;
    constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const std::size_t used = std::ranges::equal(kMapped, std::span(bytes).first<12>()) ? 16 : 8;
    return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(used));
}

}  // namespace roll::http
