#include "daemon/query/page.hpp"

#include <algorithm>

namespace roll::query {
namespace {

constexpr std::size_t kBytesMax = 8u << 20;

// Returns an upper bound of the length of the string in JSON.
std::size_t bytes_of(const std::string& text) {
    const auto escaped = [](unsigned char c) { return c < 0x20 || c == '"' || c == '\\'; };
    return text.size() + 5 * static_cast<std::size_t>(std::ranges::count_if(text, escaped)) + 3;
}

std::size_t bytes_of(const Json& value) {
    constexpr std::size_t kNumber = 26;
    if (const auto* text = value.get_ptr<const std::string*>()) return bytes_of(*text);
    std::size_t bytes = kNumber;
    if (const auto* object = value.get_ptr<const Json::object_t*>())
        for (const auto& [key, inner] : *object) bytes += bytes_of(key) + bytes_of(inner);
    if (const auto* list = value.get_ptr<const Json::array_t*>())
        for (const Json& inner : *list) bytes += bytes_of(inner);
    return bytes;
}

}  // namespace

bool Page::takes(const Json& row) {
    const std::size_t more = bytes_of(row);
    if (bytes_ > 0 && bytes_ + more > kBytesMax) return false;
    bytes_ += more;
    return true;
}

}  // namespace roll::query
