#include "common/spec/check/utf8.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace roll::spec {
namespace {

bool is_utf8(const std::string& text) {
    if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return true;
    const auto written = [&](Json::error_handler_t how) {
        return Json(text).dump(-1, ' ', false, how);
    };
    return written(Json::error_handler_t::ignore) == written(Json::error_handler_t::replace);
}

bool is_text(const std::string& text) { return is_utf8(text) && text.find('\0') == text.npos; }

bool is_all_text(const Json& value) {
    if (value.is_string()) return is_text(value.get_ref<const std::string&>());
    if (value.is_object())
        return std::ranges::all_of(value.items(), [](const auto& item) {
            return is_text(item.key()) && is_all_text(item.value());
        });
    return !value.is_array() || std::ranges::all_of(value, is_all_text);
}

void find_bytes(const Json& value, const std::string& path, std::vector<Problem>& found) {
    const auto refuse = [&](const std::string& text) {
        if (is_text(text)) return;
        // The text must have no NUL: programs and the kernel would read only the part before the
        // NUL.
        found.push_back(
            {path, fmt::format("is {}; allowed: {}", dump(Json(text)),
                               is_utf8(text) ? "text without the character NUL" : "UTF-8 text")});
    };
    if (value.is_string()) refuse(value.get_ref<const std::string&>());
    if (value.is_array()) {
        for (std::size_t i = 0; i < value.size(); ++i) {
            find_bytes(value[i], fmt::format("{}[{}]", path, i), found);
        }
    }
    if (!value.is_object()) return;
    for (const auto& [key, inner] : value.items()) {
        refuse(key);
        // A key that is not UTF-8 cannot be printed in a path, so skip the value of this key.
        if (!is_utf8(key)) continue;
        find_bytes(inner, path.empty() ? key : path + "." + key, found);
    }
}

}  // namespace

std::vector<Problem> not_utf8(const Json& document) {
    std::vector<Problem> problems;
    if (is_all_text(document)) return problems;
    find_bytes(document, "", problems);
    return problems;
}

}  // namespace roll::spec
