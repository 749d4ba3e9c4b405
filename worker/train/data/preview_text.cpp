// Formats a preview as text: lines of a limited width, in which the learned text is marked.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <utf8proc.h>

#include "common/counted.hpp"
#include "common/hash.hpp"
#include "common/wrapped.hpp"
#include "worker/train/data/preview.hpp"

namespace roll::train {
namespace {

constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";
constexpr std::size_t kMostLines = 200;  // maximum number of lines shown for a document

// Returns the number of columns that a character takes on a terminal. Characters of a newer Unicode
// than utf8proc's take one column.
std::size_t width_of(utf8proc_int32_t point) {
    if (utf8proc_category(point) == UTF8PROC_CATEGORY_CN) return 1;
    return static_cast<std::size_t>(utf8proc_charwidth(point));
}

// Breaks text into lines, indented by two spaces.
class Page {
  public:
    explicit Page(const PreviewStyle& style) : style_(style) {}

    void add(const PreviewPart& part) {
        learned_ = part.learned;
        if (learned_ && !style_.color) put("{+", 2);
        for (std::string_view left = part.text; !left.empty();) {
            utf8proc_int32_t point = 0;
            const auto read = utf8proc_iterate(
                reinterpret_cast<const utf8proc_uint8_t*>(left.data()), std::ssize(left), &point);
            const std::size_t size = read > 0 ? static_cast<std::size_t>(read) : 1;
            add_character(left.substr(0, size), read > 0 ? point : 0xFFFD);
            left.remove_prefix(size);
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
    void add_character(std::string_view character, utf8proc_int32_t point) {
        if (point == '\n') {
            put("\\n", 2);
            ends_ = true;
        } else if (point < 0x20 || (point >= 0x7F && point < 0xA0)) {
            put("\\x" + to_hex(static_cast<std::uint64_t>(point)).substr(14), 4);
        } else {
            put(character, width_of(point));
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

// Returns the sentence as indented lines.
std::string lines_of(const std::string& sentence, const PreviewStyle& style) {
    return wrapped("  " + sentence + "\n", style.columns, 4);
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
    std::string text = file.path + "\n" + lines_of(counts, style);
    for (const std::string& line : file.bad) text += lines_of("bad " + line, style);
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
