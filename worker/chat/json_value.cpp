#include "worker/chat/json_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

constexpr std::size_t kJsonDepthMax = 100;
constexpr int kReprDepthMax = 200;
constexpr std::size_t kWrittenMax = std::size_t{16} << 20U;

void check_written(const std::string& text, int depth) {
    if (depth > kReprDepthMax) refuse("a value is nested too deeply; allowed: at most 200 levels");
    if (text.size() > kWrittenMax)
        refuse("the text of a value is larger than 16 MiB, which is the limit");
}

// Builds values from the events of nlohmann's JSON parser. If a handler returns false, the parser
// stops.
class Builder {
  public:
    explicit Builder(Arena& arena) : arena_(arena) {}

    bool null() { return add(none()); }
    bool boolean(bool value) { return add(chat::boolean(value)); }
    bool number_integer(std::int64_t value) { return add(integer(value)); }
    bool number_unsigned(std::uint64_t value) {
        if (!std::in_range<std::int64_t>(value)) return too_large(std::to_string(value));
        return add(integer(static_cast<std::int64_t>(value)));
    }
    bool number_float(double value, const std::string& text) {
        if (text.find_first_of(".eE") == std::string::npos) return too_large(text);
        return add(number(value));
    }
    bool string(std::string& text) { return add(chat::string(arena_.copy(text))); }
    bool binary(std::vector<std::uint8_t>& /*bytes*/) { return false; }
    bool start_object(std::size_t /*size*/) { return open(/*is_dict=*/true); }
    bool key(std::string& text) {
        open_.back().key = arena_.copy(text);
        return true;
    }
    bool end_object() {
        std::vector<Entry> entries = std::move(open_.back().entries);
        open_.pop_back();
        return add(dict(std::move(entries), arena_));
    }
    bool start_array(std::size_t /*size*/) { return open(/*is_dict=*/false); }
    bool end_array() {
        std::vector<Entry> entries = std::move(open_.back().entries);
        open_.pop_back();
        Value* const items = arena_.make<Value>(entries.size());
        for (std::size_t i = 0; i < entries.size(); ++i)
            std::construct_at(items + i, entries[i].value);
        return add(list(std::span<const Value>(items, entries.size())));
    }
    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const nlohmann::json::exception& /*error*/) {
        problem_ = "is invalid JSON at byte " + std::to_string(position);
        return false;
    }

    const Value& root() const { return root_; }
    const std::string& problem() const { return problem_; }

  private:
    struct Open {
        std::vector<Entry> entries;
        std::string_view key = {};
        bool is_dict = false;
    };
    bool open(bool is_dict) {
        if (open_.size() == kJsonDepthMax)
            problem_ = "is nested too deeply; allowed: at most 100 levels";
        open_.push_back({{}, {}, is_dict});
        return problem_.empty();
    }
    bool add(const Value& value) {
        if (open_.empty())
            root_ = value;
        else
            open_.back().entries.push_back({open_.back().key, value});
        return true;
    }
    bool too_large(const std::string& text) {
        problem_ = "has the integer " + text.substr(0, 40) + ", which does not fit into 64 bits";
        return false;
    }

    Arena& arena_;
    std::vector<Open> open_;
    Value root_;
    std::string problem_;
};

// Appends Python's repr of a float: the shortest digits from which Python reads the same number.
void append_float(double value, std::string& text) {
    if (std::isnan(value)) return void(text += "nan");
    if (std::isinf(value)) return void(text += value < 0 ? "-inf" : "inf");
    char digits[40];
    const auto end =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
    const std::string_view whole(digits, static_cast<std::size_t>(end - digits));
    int exponent = 0;
    const std::size_t e = whole.find('e');
    const std::size_t sign = whole[e + 1] == '+' ? 1 : 0;
    std::from_chars(digits + e + 1 + sign, end, exponent);
    if (exponent < -4 || exponent >= 16) return void(text += whole);
    const auto fixed =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr;
    const std::string_view plain(digits, static_cast<std::size_t>(fixed - digits));
    text += plain;
    if (plain.find('.') == std::string_view::npos) text += ".0";
}

void append_escape(char32_t character, std::string& text) {
    if (character > 0xFFFF) {
        const char32_t above = character - 0x10000;
        fmt::format_to(std::back_inserter(text), "\\u{:04x}\\u{:04x}",
                       static_cast<unsigned>(0xD800 + (above >> 10U)),
                       static_cast<unsigned>(0xDC00 + (above & 0x3FFU)));
    } else {
        fmt::format_to(std::back_inserter(text), "\\u{:04x}", static_cast<unsigned>(character));
    }
}

void write_string(std::string_view value, bool ascii, std::string& text) {
    text += '"';
    while (!value.empty()) {
        const std::size_t size = character_size(value);
        const char c = value.front();
        static constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
        const std::size_t named = kNamed.find(c);
        if (named != std::string_view::npos)
            (text += '\\') += kNames[named];
        else if ((size == 1 && static_cast<unsigned char>(c) < 0x20) || (ascii && size > 1))
            append_escape(first_character(value), text);
        else if (ascii && c == 0x7F)
            text += c;
        else
            text += value.substr(0, size);
        value.remove_prefix(size);
    }
    text += '"';
}

class Writer {
  public:
    Writer(const JsonStyle& style, std::string& text) : style_(style), text_(text) {}

    void write(const Value& value, int depth) {
        check_written(text_, depth);
        switch (value.kind) {
            case Kind::None: text_ += "null"; return;
            case Kind::Bool: text_ += value.integer != 0 ? "true" : "false"; return;
            case Kind::Int: text_ += std::to_string(value.integer); return;
            case Kind::Float: write_float(value.number); return;
            case Kind::String: write_string(value.text(), style_.ascii, text_); return;
            case Kind::List: write_list(value.list(), depth); return;
            case Kind::Dict: write_dict(*value.dict, depth); return;
            default: refuse(std::string("tojson cannot write ") + name_of(value.kind));
        }
    }

  private:
    void write_float(double value) {
        if (std::isnan(value))
            text_ += "NaN";
        else if (std::isinf(value))
            text_ += value < 0 ? "-Infinity" : "Infinity";
        else
            append_float(value, text_);
    }
    void start_line(int depth) {
        if (style_.indent < 0) return;
        text_ += '\n';
        text_.append(static_cast<std::size_t>(style_.indent) * static_cast<std::size_t>(depth),
                     ' ');
    }
    void write_list(std::span<const Value> items, int depth) {
        text_ += '[';
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) text_ += style_.between;
            start_line(depth + 1);
            write(items[i], depth + 1);
        }
        if (!items.empty()) start_line(depth);
        text_ += ']';
    }
    void write_dict(const Dict& dict, int depth) {
        std::vector<const Entry*> entries;
        for (const Entry& entry : dict.entries) entries.push_back(&entry);
        if (style_.sort_keys)
            std::ranges::sort(entries, {}, [](const Entry* entry) { return entry->key; });
        text_ += '{';
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (i > 0) text_ += style_.between;
            start_line(depth + 1);
            write_string(entries[i]->key, style_.ascii, text_);
            text_ += style_.after_key;
            write(entries[i]->value, depth + 1);
        }
        if (!entries.empty()) start_line(depth);
        text_ += '}';
    }

    const JsonStyle& style_;
    std::string& text_;
};

// Appends a string like Python's repr, but escapes fewer of the unprintable characters than Python.
void append_quoted(std::string_view value, std::string& text) {
    const bool twice =
        value.find('\'') != std::string_view::npos && value.find('"') == std::string_view::npos;
    const char quote = twice ? '"' : '\'';
    text += quote;
    for (const char c : value) {
        if (c == quote || c == '\\')
            (text += '\\') += c;
        else if (c == '\n')
            text += "\\n";
        else if (c == '\r')
            text += "\\r";
        else if (c == '\t')
            text += "\\t";
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
            fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned>(c));
        else
            text += c;
    }
    text += quote;
}

}  // namespace

Result<Value> read_json(std::string_view text, Arena& arena) {
    Builder builder(arena);
    try {
        if (nlohmann::json::sax_parse(text, &builder)) return builder.root();
    } catch (const Failure& failure) {
        return fail(ErrorCode::InvalidArgument, failure.message);
    }
    return fail(ErrorCode::InvalidArgument, builder.problem());
}

void write_json(const Value& value, const JsonStyle& style, std::string& text) {
    Writer(style, text).write(value, 0);
}

void append_repr(const Value& value, std::string& text, int depth) {
    check_written(text, depth);
    if (value.is(Kind::String)) return append_quoted(value.text(), text);
    const char* between = "";
    if (value.is(Kind::List)) {
        text += '[';
        for (const Value& item : value.list()) {
            text += std::exchange(between, ", ");
            append_repr(item, text, depth + 1);
        }
        text += ']';
    } else if (value.is(Kind::Dict)) {
        text += '{';
        for (const Entry& entry : value.dict->entries) {
            text += std::exchange(between, ", ");
            append_quoted(entry.key, text);
            text += ": ";
            append_repr(entry.value, text, depth + 1);
        }
        text += '}';
    } else {
        append_str(value, text);
    }
}

void append_str(const Value& value, std::string& text) {
    switch (value.kind) {
        case Kind::Undefined: return;
        case Kind::None: text += "None"; return;
        case Kind::Bool: text += value.integer != 0 ? "True" : "False"; return;
        case Kind::Int: text += std::to_string(value.integer); return;
        case Kind::Float: append_float(value.number, text); return;
        case Kind::String: text += value.text(); return;
        case Kind::List:
        case Kind::Dict: append_repr(value, text); return;
        default: refuse(std::string("cannot write ") + name_of(value.kind) + " as text");
    }
}

std::string_view str(const Value& value, Arena& arena) {
    if (value.is(Kind::String)) return value.text();
    std::string text;
    append_str(value, text);
    return arena.copy(text);
}

}  // namespace roll::chat
