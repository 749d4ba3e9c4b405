// A value of the template language. Values are trivially copyable. Strings, lists and dicts point
// into an Arena, which must outlive the value.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "worker/chat/arena.hpp"

namespace roll::chat {

enum class Kind : std::uint8_t {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    String,
    List,  // a list; also used for Python's tuple
    Dict,
    Namespace,
    Macro,
    Function,
    Method,
    Loop
};

enum class Function : std::uint8_t { Range, Namespace, Dict, RaiseException, StrftimeNow };

struct Dict;
struct Namespace;
struct Method;
struct Loop;
struct Statement;

struct Value {
    Kind kind = Kind::Undefined;
    std::uint32_t size = 0;  // number of bytes of a String, or of items of a List
    union {
        std::int64_t integer = 0;  // value of an Int or a Bool
        double number;
        const char* chars;
        const Value* items;
        const Dict* dict;
        Namespace* space;
        const Statement* macro;
        Function function;
        const Method* method;
        const Loop* loop;
    };

    std::string_view text() const { return {chars, size}; }  // requires that the value is a String
    std::span<const Value> list() const { return {items, size}; }
    bool is(Kind other) const { return kind == other; }
    bool is_undefined() const { return kind == Kind::Undefined; }
};

struct Entry {
    std::string_view key;
    Value value;
};

// A dict: its entries in insertion order. Keys are distinct.
struct Dict {
    std::span<const Entry> entries;
    std::span<const std::uint32_t>
        sorted;  // indices of the entries, ordered by key; empty if there are few entries

    const Value* find(std::string_view key) const;
};

struct Namespace {
    std::vector<std::pair<std::string_view, Value>> values;
};

// A method together with its object, as in `value.name` without a call.
struct Method {
    Value self;
    std::string_view name;
};

// State of the variable `loop` inside a for statement.
struct Loop {
    std::span<const Value> items;
    std::size_t index = 0;
};

Value none();
Value boolean(bool value);
Value integer(std::int64_t value);
Value number(double value);
// Returns a String that points to `text`; does not copy it. Fails if `text` has 4 GiB or more.
Value string(std::string_view text);
Value list(std::span<const Value> items);
Value list(const std::vector<Value>& items, Arena& arena);
// Makes a dict. If several entries have the same key, keeps the last value at the position of the
// first entry, as Python does.
Value dict(std::vector<Entry> entries, Arena& arena);

bool truth(const Value& value);
// Returns the integer in an Int or a Bool. Fails for other kinds; `what` describes the value.
std::int64_t whole(const Value& value, const char* what);
double real(const Value& value, const char* what);
bool is_number(const Value& value);
bool equal(const Value& a, const Value& b, int depth = 0);
// Returns a negative number if a < b, 0 if a == b, and a positive number if a > b. Fails if values
// of these kinds have no order.
int compare(const Value& a, const Value& b, int depth = 0);
// Returns Python's name of the kind, for messages.
const char* name_of(Kind kind);

// length() returns Python's len(value). iterate() returns the items that a loop visits.
std::int64_t length(const Value& value);
std::span<const Value> iterate(const Value& value, Arena& arena);
bool is_iterable(const Value& value);

}  // namespace roll::chat
