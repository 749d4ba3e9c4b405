// Breaks long lines for a terminal, which would break them in the middle of a word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace roll {

// Returns the text with each line of more than `columns` bytes broken at spaces. The added lines
// begin with `indent` spaces. A word that is too long for a line stays whole.
inline std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
    std::string result;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        const bool ends = line.size() < text.size();
        text.remove_prefix(line.size() + (ends ? 1 : 0));
        std::size_t margin = 0;
        while (margin + line.size() > columns) {
            const std::size_t room = columns - std::min(margin, columns);
            const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
            std::size_t cut = line.rfind(' ', room);
            if (cut == std::string_view::npos || cut < word) cut = line.find(' ', word);
            if (cut == std::string_view::npos) break;
            result += std::string(margin, ' ') + std::string(line.substr(0, cut)) + "\n";
            line.remove_prefix(cut + 1);
            margin = indent;
        }
        result += std::string(margin, ' ') + std::string(line) + (ends ? "\n" : "");
    }
    return result;
}

}  // namespace roll
