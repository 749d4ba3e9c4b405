// Formats a preview as text: lines of a limited width, in which the learned text is marked.
#include <algorithm>
#include <array>
#include <cmath>

#include "common/counted.hpp"
#include "worker/train/data/preview.hpp"

namespace roll::train {
namespace {

constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";
constexpr std::size_t kMostLines = 200;  // maximum number of lines shown for a document

struct Range {
    char32_t first, last;
};

// Ranges of characters that take two columns: East Asian scripts and pictographs
constexpr std::array kWide{Range{0x1100, 0x115F},   Range{0x2E80, 0xA4CF},  Range{0xAC00, 0xD7A3},
                           Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},  Range{0xFF00, 0xFF60},
                           Range{0x1F300, 0x1FAFF}, Range{0x20000, 0x3FFFD}};

// Returns the number of bytes of the character that begins with `first`.
std::size_t length_of(char first) {
    const auto byte = static_cast<unsigned char>(first);
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns a byte as an escape sequence, e.g. "\x1b".
std::string number_of(char byte) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    return std::string("\\x") + kDigits[value >> 4U] + kDigits[value & 15U];
}

std::size_t width_of(std::string_view character) {
    if (character.size() < 3) return 1;
    char32_t code = static_cast<unsigned char>(character[0]) & (character.size() == 3 ? 0x0FU : 7U);
    for (const char byte : character.substr(1))
        code = code << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
    for (const Range& wide : kWide)
        if (code >= wide.first && code <= wide.last) return 2;
    return 1;
}

// Breaks text into lines, indented by two spaces.
class Page {
  public:
    explicit Page(const PreviewStyle& style) : style_(style) {}

    void add(const PreviewPart& part) {
        learned_ = part.learned;
        if (learned_ && !style_.color) put("{+", 2);
        for (std::size_t at = 0; at < part.text.size();) {
            const std::size_t size = std::min(length_of(part.text[at]), part.text.size() - at);
            add_character(std::string_view(part.text).substr(at, size));
            at += size;
        }
        if (learned_ && !style_.color) put("+}", 2);
        end_green();
        learned_ = false;
    }

    std::string text() {
        if (column_ > 0) break_line();
        return std::move(text_);
    }

  private:
    // Adds a character. Writes a control character as an escape sequence, because a terminal would
    // execute it.
    void add_character(std::string_view character) {
        const auto byte = static_cast<unsigned char>(character[0]);
        const bool steers = byte < 0x20 || byte == 0x7F ||
                            (byte == 0xC2 && character.size() == 2 &&
                             static_cast<unsigned char>(character[1]) < 0xA0);
        if (character == "\n") {
            put("\\n", 2);
            ends_ = true;
        } else if (steers) {
            put(number_of(character.back()), 4);
        } else {
            put(character, width_of(character));
        }
    }

    // Writes `text`, on a new line if the current line has no room. The mark "+}" stays on the line
    // of the learned text before it.
    void put(std::string_view text, std::size_t width) {
        if (ends_ && text != "+}") break_line();
        if (column_ + width > style_.columns) break_line();
        if (column_ == 0) {
            text_ += "  ";
            column_ = 2;
        }
        if (style_.color && learned_ && !green_) {
            text_ += kGreen;
            green_ = true;
        }
        text_ += text;
        column_ += width;
    }

    void end_green() {
        if (green_) text_ += kPlain;
        green_ = false;
    }

    void break_line() {
        end_green();
        text_ += '\n';
        column_ = 0;
        ends_ = false;
    }

    PreviewStyle style_;
    std::string text_;
    std::size_t column_ = 0;
    bool learned_ = false;
    bool green_ = false;
    bool ends_ = false;  // true: the next character begins a new line
};

// Wraps a sentence between words. Its lines are indented.
std::string wrapped(const std::string& sentence, std::size_t columns) {
    std::string text = " ";
    std::size_t column = 1;
    for (std::size_t at = 0; at < sentence.size();) {
        const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
        if (column + 1 + end - at > columns) {
            text += "\n   ";
            column = 3;
        }
        text += ' ' + sentence.substr(at, end - at);
        column += 1 + end - at;
        at = end + 1;
    }
    return text + "\n";
}

std::string percent_of(std::int64_t part, std::int64_t whole) {
    if (whole == 0) return "0 %";
    const std::int64_t tenths =
        std::llround(1000.0 * static_cast<double>(part) / static_cast<double>(whole));
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string head_of(const PreviewFile& file, const PreviewStyle& style) {
    std::string counts = counted(file.documents, "document");
    if (!file.whole) counts += " in the first MiB";
    counts += ", " + counted(file.tokens, "token") + ", " + std::to_string(file.learned) +
              " learned (" + percent_of(file.learned, file.tokens) + ")";
    if (file.cut > 0)
        counts += "; " + counted(file.cut, "document") + (file.cut == 1 ? " is cut" : " are cut");
    if (file.dropped > 0)
        counts += "; " + counted(file.dropped, "longer document") +
                  (file.dropped == 1 ? " is dropped" : " are dropped");
    if (!file.form.empty()) counts += "; conversations: " + file.form;
    std::string text = file.path + "\n" + wrapped(counts, style.columns);
    for (const std::string& line : file.bad) text += wrapped("bad " + line, style.columns);
    return text;
}

std::string title_of(const PreviewDocument& document, std::size_t number) {
    const auto shown = std::ssize(document.tokens);
    std::string text = "\ndocument " + std::to_string(number) + ": " + counted(shown, "token");
    if (document.size > shown) text += " of " + std::to_string(document.size);
    return text + ", " + std::to_string(document.learned) + " learned\n";
}

// Returns the first lines of a document's text, and a note if there are more lines.
std::string first_lines(const std::string& text) {
    std::size_t at = 0;
    for (std::size_t lines = 0; lines < kMostLines; ++lines) {
        const std::size_t end = text.find('\n', at);
        if (end == std::string::npos) return text;
        at = end + 1;
    }
    if (at == text.size()) return text;
    const auto left = std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n');
    return text.substr(0, at) + "  ... and " + counted(left, "more line") + "\n";
}

}  // namespace

std::string preview_text(const std::vector<PreviewFile>& files, const PreviewStyle& style) {
    std::string text;
    for (const PreviewFile& file : files) {
        text += head_of(file, style);
        std::size_t number = 0;
        for (const PreviewDocument& document : file.shown) {
            text += title_of(document, ++number);
            Page page(style);
            for (const PreviewPart& part : document.parts) page.add(part);
            text += first_lines(page.text());
        }
    }
    return text + (style.color ? "\nLearned text is green.\n"
                               : "\nLearned text stands between {+ and +}.\n");
}

}  // namespace roll::train
