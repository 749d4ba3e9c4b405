#include "common/protocol/file_operations.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "common/spec/schema/units.hpp"

namespace roll::protocol {
namespace {

bool is_utf8(const std::string& bytes) {
    try {
        static_cast<void>(Json(bytes).dump());
        return true;
    } catch (const Json::type_error&) {
        return false;
    }
}

}  // namespace

std::string files_too_large(const std::string& name, std::uint64_t bytes, std::uint64_t most) {
    return fmt::format(
        "the files of {} have a total size of {}; rolld accepts at most {} for each job", name,
        spec::size_text(static_cast<std::int64_t>(bytes)),
        spec::size_text(static_cast<std::int64_t>(most)));
}

std::string text_of_bytes(const std::string& bytes, bool& latin1) {
    latin1 = !is_utf8(bytes);
    if (!latin1) return bytes;
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x80u) text += static_cast<char>(0xC0u | (byte >> 6u));
        text += byte >= 0x80u ? static_cast<char>(0x80u | (byte & 0x3Fu)) : c;
    }
    return text;
}

std::string bytes_of_text(const std::string& text, bool latin1) {
    if (!latin1) return text;
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool pair = byte >= 0xC0u && i + 1 < text.size();
        if (pair) ++i;
        const auto low = static_cast<unsigned char>(text[i]) & 0x3Fu;
        bytes += pair ? static_cast<char>(((byte & 0x03u) << 6u) | low) : text[i];
    }
    return bytes;
}

}  // namespace roll::protocol
