#include "worker/chat/lexer.hpp"

#include <algorithm>

#include <utf8proc.h>

#include "worker/chat/arena.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Returns the source with each line end converted to \n. If the source ends with a line end,
// removes this one line end.
std::string normalized(std::string_view source) {
    std::string text;
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
        text += source[i] == '\r' ? '\n' : source[i];
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

class Lexer {
  public:
    explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

    std::vector<Token> run() {
        while (!rest_.empty()) read_data();
        add(TokenKind::End, "");
        return std::move(tokens_);
    }

  private:
    void add(TokenKind kind, std::string text) {
        tokens_.push_back({kind, std::move(text), line_});
    }
    // Consumes `size` bytes.
    void skip(std::size_t size) {
        const std::string_view passed = rest_.substr(0, size);
        line_ += static_cast<int>(std::ranges::count(passed, '\n'));
        if (!passed.empty()) at_line_start_ = passed.back() == '\n';
        rest_.remove_prefix(passed.size());
    }
    bool take(std::string_view text) {
        const bool found = rest_.starts_with(text);
        if (found) skip(text.size());
        return found;
    }
    void skip_spaces() { skip(rest_.size() - strip(rest_, Side::Left).size()); }

    // Returns the text before a tag, without the spaces that the tag removes. If `sign` is '-', the
    // tag removes all spaces at the end of the text. A `block` tag at the beginning of a line also
    // removes the line's indentation.
    std::string_view before_tag(std::string_view text, char sign, bool block) const {
        if (sign == '-') return strip(text, Side::Right);
        if (sign == '+' || !block) return text;
        const std::size_t line = text.rfind('\n') + 1;
        if (line == 0 && !at_line_start_) return text;
        return strip(text.substr(line), Side::Left).empty() ? text.substr(0, line) : text;
    }

    // Reads the end mark of a tag, with its sign `-` or `+`, if any. If the sign is `-`, also skips
    // the spaces after the tag. If there is no sign and `trims_line` is true, skips the line end
    // after the tag.
    bool take_end(std::string_view mark, bool trims_line) {
        const std::string minus = "-" + std::string(mark), plus = "+" + std::string(mark);
        if (rest_.starts_with(minus)) {
            const std::size_t size = minus.size();
            const std::string_view after = rest_.substr(size);
            skip(size + after.size() - strip(after, Side::Left).size());
            return true;
        }
        if (trims_line && take(plus)) return true;
        if (!rest_.starts_with(mark)) return false;
        const bool line_end = trims_line && rest_.substr(mark.size()).starts_with('\n');
        skip(mark.size() + (line_end ? 1 : 0));
        return true;
    }

    void read_data() {
        std::size_t at = 0;
        while (true) {
            at = rest_.find('{', at);
            if (at == std::string_view::npos || at + 1 == rest_.size()) {
                add(TokenKind::Data, std::string(rest_));
                return skip(rest_.size());
            }
            if (rest_[at + 1] == '%' || rest_[at + 1] == '{' || rest_[at + 1] == '#') break;
            ++at;
        }
        const char mark = rest_[at + 1];
        const char next = at + 2 < rest_.size() ? rest_[at + 2] : ' ';
        const bool signed_tag = next == '-' || next == '+';
        const auto text = before_tag(rest_.substr(0, at), signed_tag ? next : ' ', mark != '{');
        if (!text.empty()) add(TokenKind::Data, std::string(text));
        skip(at + (signed_tag ? 3 : 2));
        if (mark == '#') return skip_comment();
        if (mark == '%' && take_raw()) return;
        add(mark == '%' ? TokenKind::BlockBegin : TokenKind::OutputBegin, "");
        read_tag(mark == '%');
    }

    void skip_comment() {
        const int line = line_;
        std::size_t end = rest_.find("#}");
        if (end == std::string_view::npos) refuse("a comment has no end #}", line);
        if (end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+')) --end;
        skip(end);
        take_end("#}", /*trims_line=*/true);
    }

    // Reads {% raw %} and the text up to {% endraw %}. Returns false if the tag is not `raw`.
    bool take_raw() {
        std::string_view after = strip(rest_, Side::Left);
        if (!after.starts_with("raw")) return false;
        after = strip(after.substr(3), Side::Left);
        if (!after.starts_with("%}") && !after.starts_with("-%}")) return false;
        skip(rest_.size() - after.size());
        take_end("%}", /*trims_line=*/false);
        const int line = line_;
        for (std::size_t at = rest_.find("{%"); at != std::string_view::npos;
             at = rest_.find("{%", at + 2)) {
            const char sign = at + 2 < rest_.size() ? rest_[at + 2] : ' ';
            std::string_view tag = rest_.substr(at + (sign == '-' || sign == '+' ? 3 : 2));
            tag = strip(tag, Side::Left);
            if (!tag.starts_with("endraw")) continue;
            const auto text = before_tag(rest_.substr(0, at), sign, /*block=*/true);
            if (!text.empty()) add(TokenKind::Data, std::string(text));
            tag = strip(tag.substr(6), Side::Left);
            skip(rest_.size() - tag.size());
            if (!take_end("%}", /*trims_line=*/true))
                refuse("a tag {% endraw has no closing %}", line_);
            return true;
        }
        refuse("a tag {% raw %} has no {% endraw %}", line);
    }

    void read_tag(bool block) {
        const int line = line_;
        std::string open;  // opening brackets that are not closed yet
        while (true) {
            skip_spaces();
            if (rest_.empty())
                refuse(block ? "a tag {% has no end %}" : "a tag {{ has no end }}", line);
            if (open.empty() && take_end(block ? "%}" : "}}", block)) {
                return add(block ? TokenKind::BlockEnd : TokenKind::OutputEnd, "");
            }
            read_token(open);
        }
    }

    void read_token(std::string& open) {
        const char c = rest_.front();
        if (letter(c))
            return read_while(TokenKind::Name, [](char x) { return letter(x) || digit(x); });
        if (digit(c)) return read_number();
        if (c == '"' || c == '\'') return read_text(c);
        static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
        const auto two = std::ranges::find_if(kTwo, [&](auto op) { return rest_.starts_with(op); });
        const std::string op(two != std::end(kTwo) ? *two : rest_.substr(0, 1));
        static constexpr std::string_view kOne = "+-/*%~[](){}<>=.:|,";
        if (op.size() == 1 && kOne.find(c) == std::string_view::npos)
            refuse("the character '" + std::string(rest_.substr(0, character_size(rest_))) +
                       "' is not part of the template language",
                   line_);
        if (c == '(' || c == '[' || c == '{') open += c;
        if (c == ')' || c == ']' || c == '}') {
            const char begin = c == ')' ? '(' : c == ']' ? '[' : '{';
            if (open.empty() || open.back() != begin)
                refuse(std::string("'") + c + "' closes no bracket", line_);
            open.pop_back();
        }
        add(TokenKind::Operator, op);
        skip(op.size());
    }

    template <class Belongs>
    void read_while(TokenKind kind, const Belongs& belongs) {
        const auto end = std::ranges::find_if_not(rest_, belongs);
        const auto size = static_cast<std::size_t>(end - rest_.begin());
        add(kind, std::string(rest_.substr(0, size)));
        skip(size);
    }

    void read_number() {
        const auto digits = [&](std::size_t at) {
            while (at < rest_.size() && digit(rest_[at])) ++at;
            return at;
        };
        const auto digit_at = [&](std::size_t at) { return at < rest_.size() && digit(rest_[at]); };
        std::size_t end = digits(0);
        const std::size_t whole = end;
        if (end < rest_.size() && rest_[end] == '.' && digit_at(end + 1)) end = digits(end + 1);
        if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
            const bool sign =
                end + 1 < rest_.size() && (rest_[end + 1] == '-' || rest_[end + 1] == '+');
            if (digit_at(end + 1 + (sign ? 1 : 0))) end = digits(end + 1 + (sign ? 1 : 0));
        }
        if (end < rest_.size() && letter(rest_[end]))
            refuse("the number " + std::string(rest_.substr(0, end + 1)) +
                       " is not decimal; Roll reads decimal numbers only",
                   line_);
        add(end == whole ? TokenKind::Integer : TokenKind::Float,
            std::string(rest_.substr(0, end)));
        skip(end);
    }

    void read_text(char quote) {
        std::size_t end = 1;
        while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
        if (end >= rest_.size()) refuse("a string has no end", line_);
        add(TokenKind::Text, unescaped(rest_.substr(1, end - 1)));
        skip(end + 1);
    }

    // Returns the value of a Python string literal.
    std::string unescaped(std::string_view text) const {
        std::string result;
        while (!text.empty()) {
            const std::size_t slash = std::min(text.find('\\'), text.size());
            result += text.substr(0, slash);
            text.remove_prefix(slash);
            if (text.empty()) break;
            const char c = text[1];
            static constexpr std::string_view kNames = "\\'\"abfnrtv",
                                              kMeant = "\\'\"\a\b\f\n\r\t\v";
            const std::size_t named = kNames.find(c);
            if (named != std::string_view::npos) {
                result += kMeant[named];
                text.remove_prefix(2);
            } else if (c == '\n') {
                text.remove_prefix(2);
            } else if (c == 'x' || c == 'u' || c == 'U') {
                const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
                append_code(text.substr(2, size), size, result);
                text.remove_prefix(2 + size);
            } else if (digit(c) || c == 'N') {
                refuse(std::string("the escape \\") + c + " is not supported", line_);
            } else {
                result += '\\';
                text.remove_prefix(1);
            }
        }
        return result;
    }

    void append_code(std::string_view hex, std::size_t size, std::string& result) const {
        const bool whole = hex.size() == size && std::ranges::all_of(hex, [](char c) {
                               return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
                           });
        const unsigned long code = whole ? std::stoul(std::string(hex), nullptr, 16) : 0x110000;
        utf8proc_uint8_t bytes[4];
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            refuse("a string has an escape sequence that is not a Unicode character", line_);
        const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
        result.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
    }

    std::string source_;
    std::string_view rest_;
    std::vector<Token> tokens_;
    int line_ = 1;
    bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
    if (!is_utf8(source)) refuse("the template is not UTF-8", 1);
    return Lexer(normalized(source)).run();
}

}  // namespace roll::chat
