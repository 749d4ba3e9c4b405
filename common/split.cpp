#include "common/split.hpp"

namespace roll {

std::vector<std::string> split_at(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (;;) {
        const std::size_t end = text.find(separator);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string> words_at(std::string_view text, char separator) {
    std::vector<std::string> words = split_at(text, separator);
    std::erase(words, "");
    return words;
}

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    return quoted + "'";
}

}  // namespace roll
