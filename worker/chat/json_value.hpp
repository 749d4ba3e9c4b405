// Converts between JSON and values, like Python's json.loads and json.dumps.
#pragma once

#include <string>
#include <string_view>

#include "common/error.hpp"
#include "worker/chat/value.hpp"

namespace roll::chat {

// Reads a JSON text. Keeps the order of keys. Fails with InvalidArgument if the text is not JSON,
// if it is nested over 100 levels, or if it has an integer outside 64 bits.
Result<Value> read_json(std::string_view text, Arena& arena);

struct JsonStyle {
    bool ascii = false;  // true: write characters outside ASCII as \uXXXX
    bool sort_keys = false;
    int indent = -1;  // number of spaces per level; -1: write all on one line
    std::string_view between = ", ", after_key = ": ";
};

// Appends the value as JSON. Throws Failure if JSON cannot express the value.
void write_json(const Value& value, const JsonStyle& style, std::string& text);

// Appends Python's str() or repr() of a value.
void append_str(const Value& value, std::string& text);
void append_repr(const Value& value, std::string& text, int depth = 0);
std::string_view str(const Value& value, Arena& arena);

}  // namespace roll::chat
