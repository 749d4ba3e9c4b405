#include "common/json_size.hpp"

namespace roll {

std::size_t most_bytes(const std::string& text) {
    std::size_t bytes = text.size() + 3;
    for (const unsigned char c : text) bytes += c < 0x20 ? 5 : c == '"' || c == '\\' ? 1 : 0;
    return bytes;
}

std::size_t most_bytes(const Json& value) {
    constexpr std::size_t kNumber = 26;
    if (const auto* text = value.get_ptr<const std::string*>()) return most_bytes(*text);
    std::size_t bytes = kNumber;
    if (const auto* object = value.get_ptr<const Json::object_t*>())
        for (const auto& [key, inner] : *object) bytes += most_bytes(key) + most_bytes(inner);
    if (const auto* list = value.get_ptr<const Json::array_t*>())
        for (const Json& inner : *list) bytes += most_bytes(inner);
    return bytes;
}

}  // namespace roll
