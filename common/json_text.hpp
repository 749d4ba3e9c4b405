// Writes JSON objects as text without building a tree, for values written thousands of times a
// second. Writes the same text as dump() (keys are sorted), in a fifth of the time.
//
//   JsonText().add("job", 7).add("token", "3-1").text()   is {"job":7,"token":"3-1"}
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"

namespace roll {

class JsonText {
  public:
    // Adds a field. The object must not have a field `key` yet. The string `key` must outlive this
    // object. `value` is a bool, an integer, a string, a JsonText, a Json, or a list of such
    // values.
    template <class T>
    JsonText& add(const char* key, const T& value) {
        const std::size_t begin = values_.size();
        append(value);
        fields_.push_back({key, begin, values_.size()});
        return *this;
    }
    std::string text() const;

  private:
    struct Field {
        std::string_view key;
        std::size_t begin = 0;  // the text of the value is values_[begin, end)
        std::size_t end = 0;
    };
    void append(bool value) { values_ += value ? "true" : "false"; }
    void append(std::string_view value);  // appends text, with invalid UTF-8 replaced by U+FFFD
    void append(const std::string& value) { append(std::string_view(value)); }
    void append(const char* value) { append(std::string_view(value)); }
    void append(const JsonText& value) { values_ += value.text(); }
    void append(const Json& value) { values_ += dump(value); }
    void append(std::integral auto value) {
        char digits[24];
        const auto end = std::to_chars(digits, digits + sizeof digits, value);
        values_.append(digits, end.ptr);
    }
    template <class T>
    void append(const std::vector<T>& list) {
        values_ += '[';
        for (const T& one : list) {
            if (&one != &list.front()) values_ += ',';
            append(one);
        }
        values_ += ']';
    }

    std::string values_{};
    std::vector<Field> fields_{};
};

}  // namespace roll
