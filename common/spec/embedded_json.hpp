// JSON that is parsed at compile time into a constant table beside its text. A program needs no
// time for it at startup; parsing the job schema took half the time of a `rollctl submit`.
//
//   constexpr std::string_view kText = R"({"a": [1, 2]})";
//   constexpr auto kTable = make_json_table<count_json_values(kText)>(kText);
//   EmbeddedJson(kText, kTable)["a"]
//
// The text must be valid JSON. Keys must have no escapes; strings may have \\ and \".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"

namespace roll::spec {

struct JsonEntry {
    std::uint32_t key = 0;   // offset of the key in the text, if the value is in an object
    std::uint32_t text = 0;  // offset of the value
    std::uint16_t key_size = 0;
    std::uint16_t text_size = 0;  // length of a scalar; a string without its quotes
    std::uint16_t entries = 1;    // number of table entries of this value, including nested ones
    char kind = 'n';              // the first character: one of { [ " t f n, or of a number
};

// Parses the text into table entries. Skips commas and colons: the order implies them.
class JsonTableMaker {
  public:
    constexpr JsonTableMaker(std::string_view text, JsonEntry* into) : text_(text), into_(into) {}

    // Fills the table, if there is one, and returns the number of entries.
    constexpr std::size_t make() {
        take_value(0, 0);
        return count_;
    }

  private:
    constexpr void skip() {
        while (std::string_view(" \n,:").find(text_[at_]) != std::string_view::npos) ++at_;
    }
    // Moves past a quoted string and returns the text between its quotes.
    constexpr std::string_view take_string() {
        const std::size_t begin = ++at_;
        for (; text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
        return text_.substr(begin, at_++ - begin);
    }
    constexpr std::size_t take_word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && std::string_view(" \n,]}").find(text_[at_]) == text_.npos)
            ++at_;
        return at_ - begin;
    }
    constexpr void take_values(char opening) {
        ++at_;
        for (skip(); text_[at_] != '}' && text_[at_] != ']'; skip()) {
            const std::size_t key = at_ + 1;
            const std::size_t size = opening == '{' ? take_string().size() : 0;
            take_value(key, size);
        }
        ++at_;
    }
    constexpr void take_value(std::size_t key, std::size_t key_size) {
        skip();
        const std::size_t own = count_++;
        const char kind = text_[at_];
        const std::size_t begin = at_ + (kind == '"' ? 1 : 0);
        std::size_t size = 0;
        if (kind == '{' || kind == '[')
            take_values(kind);
        else
            size = kind == '"' ? take_string().size() : take_word();
        if (into_ == nullptr) return;
        into_[own] = {static_cast<std::uint32_t>(key),          static_cast<std::uint32_t>(begin),
                      static_cast<std::uint16_t>(key_size),     static_cast<std::uint16_t>(size),
                      static_cast<std::uint16_t>(count_ - own), kind};
    }

    std::string_view text_;
    JsonEntry* into_;
    std::size_t at_ = 0;
    std::size_t count_ = 0;
};

consteval std::size_t count_json_values(std::string_view text) {
    return JsonTableMaker(text, nullptr).make();
}

template <std::size_t Count>
consteval std::array<JsonEntry, Count> make_json_table(std::string_view text) {
    static_assert(Count <= UINT16_MAX);
    std::array<JsonEntry, Count> table{};
    JsonTableMaker(text, table.data()).make();
    return table;
}

// A value in such a table; consists of two pointers.
class EmbeddedJson {
  public:
    template <std::size_t Count>
    constexpr EmbeddedJson(std::string_view text, const std::array<JsonEntry, Count>& table)
        : text_(text.data()),
          entry_(table.data()) {}

    bool is_object() const { return entry_->kind == '{'; }
    bool is_array() const { return entry_->kind == '['; }
    bool is_boolean() const { return entry_->kind == 't' || entry_->kind == 'f'; }
    bool is_false() const { return entry_->kind == 'f'; }

    // Returns the key of this value in its object.
    std::string_view key() const { return {text_ + entry_->key, entry_->key_size}; }
    std::optional<EmbeddedJson> find(std::string_view key) const;
    bool contains(std::string_view key) const { return find(key).has_value(); }
    EmbeddedJson operator[](std::string_view key) const;  // requires contains(key)

    std::string string() const;  // requires a string
    double number() const;       // requires a number
    Json json() const;           // returns the value as a Json

    // Iterates over the values of an object or an array, in the order of the text.
    struct Iterator {
        const char* text;
        const JsonEntry* at;
        EmbeddedJson operator*() const { return {text, at}; }
        bool operator!=(const Iterator& other) const { return at != other.at; }
        Iterator& operator++() {
            at += at->entries;
            return *this;
        }
    };
    Iterator begin() const { return {text_, entry_ + 1}; }
    Iterator end() const { return {text_, entry_ + entry_->entries}; }

  private:
    EmbeddedJson(const char* text, const JsonEntry* entry) : text_(text), entry_(entry) {}
    const char* text_;
    const JsonEntry* entry_;
};

}  // namespace roll::spec
