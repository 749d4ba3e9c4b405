#include "worker/chat/value.hpp"

#include <algorithm>
#include <numeric>

#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

constexpr std::size_t kFew = 8;  // dicts with at most this many entries are searched linearly
constexpr int kLevelsMax = 200;

// Largest number of comparisons in one call of equal() or compare(). Without this limit, comparing
// even a small value could take extremely long: for example, a list whose two items are the same
// list, whose two items are again the same list, and so on.
constexpr int kComparisonsMax = 1'000'000;

void check_depth(int depth) {
    static thread_local int comparisons = 0;
    comparisons = depth == 0 ? 0 : comparisons + 1;
    if (depth > kLevelsMax) refuse("a value is nested too deeply; allowed: at most 200 levels");
    if (comparisons > kComparisonsMax)
        refuse("comparing two values takes more than a million comparisons, which is the limit");
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
    if (sorted.empty()) {
        for (const Entry& entry : entries)
            if (entry.key == key) return &entry.value;
        return nullptr;
    }
    const auto key_of = [&](std::uint32_t index) { return entries[index].key; };
    const auto found = std::ranges::lower_bound(sorted, key, {}, key_of);
    return found != sorted.end() && key_of(*found) == key ? &entries[*found].value : nullptr;
}

Value none() {
    Value value;
    value.kind = Kind::None;
    return value;
}

Value boolean(bool flag) {
    Value value;
    value.kind = Kind::Bool;
    value.integer = flag ? 1 : 0;
    return value;
}

Value integer(std::int64_t number) {
    Value value;
    value.kind = Kind::Int;
    value.integer = number;
    return value;
}

Value number(double real) {
    Value value;
    value.kind = Kind::Float;
    value.number = real;
    return value;
}

Value string(std::string_view text) {
    if (text.size() > UINT32_MAX) refuse("a text is too long; allowed: less than 4 GiB");
    Value value;
    value.kind = Kind::String;
    value.size = static_cast<std::uint32_t>(text.size());
    value.chars = text.data();
    return value;
}

Value list(std::span<const Value> items) {
    Value value;
    value.kind = Kind::List;
    value.size = static_cast<std::uint32_t>(items.size());
    value.items = items.data();
    return value;
}

Value list(const std::vector<Value>& items, Arena& arena) { return list(arena.copy(items)); }

Value dict(std::vector<Entry> entries, Arena& arena) {
    std::vector<std::uint32_t> sorted(entries.size());
    std::iota(sorted.begin(), sorted.end(), 0U);
    const auto key_of = [&](std::uint32_t index) { return entries[index].key; };
    std::ranges::stable_sort(sorted, {}, key_of);
    bool doubled = false;
    // If entries have equal keys, keep the last value.
    for (std::size_t i = sorted.size(); i-- > 1;) {
        if (key_of(sorted[i - 1]) != key_of(sorted[i])) continue;
        entries[sorted[i - 1]].value = entries[sorted[i]].value;
        entries[sorted[i]].key = std::string_view();
        entries[sorted[i]].value.size = UINT32_MAX;
        doubled = true;
    }
    if (doubled) {
        std::vector<Entry> once;
        for (const Entry& entry : entries)
            if (entry.key.data() != nullptr || entry.value.size != UINT32_MAX)
                once.push_back(entry);
        return dict(std::move(once), arena);
    }
    Dict* const made = arena.make<Dict>(1);
    std::construct_at(made, arena.copy(entries), std::span<const std::uint32_t>());
    if (entries.size() > kFew) made->sorted = arena.copy(sorted);
    Value value;
    value.kind = Kind::Dict;
    value.dict = made;
    return value;
}

bool truth(const Value& value) {
    switch (value.kind) {
        case Kind::Undefined:
        case Kind::None: return false;
        case Kind::Bool:
        case Kind::Int: return value.integer != 0;
        case Kind::Float: return value.number != 0;
        case Kind::String:
        case Kind::List: return value.size != 0;
        case Kind::Dict: return !value.dict->entries.empty();
        default: return true;
    }
}

std::int64_t whole(const Value& value, const char* what) {
    if (value.is(Kind::Int) || value.is(Kind::Bool)) return value.integer;
    refuse(std::string(what) + " is not an integer but " + name_of(value.kind));
}

bool is_number(const Value& value) {
    return value.is(Kind::Int) || value.is(Kind::Bool) || value.is(Kind::Float);
}

double real(const Value& value, const char* what) {
    if (value.is(Kind::Float)) return value.number;
    return static_cast<double>(whole(value, what));
}

bool equal(const Value& a, const Value& b, int depth) {
    check_depth(depth);
    if (is_number(a) && is_number(b)) {
        if (a.is(Kind::Float) || b.is(Kind::Float)) return real(a, "") == real(b, "");
        return a.integer == b.integer;
    }
    if (a.kind != b.kind) return false;
    switch (a.kind) {
        case Kind::Undefined:
        case Kind::None: return true;
        case Kind::String: return a.text() == b.text();
        case Kind::List:
            return std::ranges::equal(a.list(), b.list(), [&](const Value& x, const Value& y) {
                return equal(x, y, depth + 1);
            });
        case Kind::Dict:
            return a.dict->entries.size() == b.dict->entries.size() &&
                   std::ranges::all_of(a.dict->entries, [&](const Entry& entry) {
                       const Value* other = b.dict->find(entry.key);
                       return other != nullptr && equal(entry.value, *other, depth + 1);
                   });
        default: return a.items == b.items;
    }
}

int compare(const Value& a, const Value& b, int depth) {
    check_depth(depth);
    const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
    if (is_number(a) && is_number(b)) {
        if (a.is(Kind::Float) || b.is(Kind::Float)) return order(real(a, ""), real(b, ""));
        return order(a.integer, b.integer);
    }
    if (a.is(Kind::String) && b.is(Kind::String)) return order(a.text(), b.text());
    if (a.is(Kind::List) && b.is(Kind::List)) {
        for (std::uint32_t i = 0; i < std::min(a.size, b.size); ++i)
            if (!equal(a.items[i], b.items[i], depth + 1))
                return compare(a.items[i], b.items[i], depth + 1);
        return order(a.size, b.size);
    }
    refuse(std::string("cannot order ") + name_of(a.kind) + " and " + name_of(b.kind));
}

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::Undefined: return "an undefined value";
        case Kind::None: return "None";
        case Kind::Bool: return "a boolean";
        case Kind::Int: return "an integer";
        case Kind::Float: return "a number";
        case Kind::String: return "a string";
        case Kind::List: return "a list";
        case Kind::Dict: return "a dict";
        case Kind::Namespace: return "a namespace";
        case Kind::Macro: return "a macro";
        case Kind::Function: return "a function";
        case Kind::Method: return "a method";
        case Kind::Loop: return "a loop";
    }
    return "";
}

std::int64_t length(const Value& value) {
    switch (value.kind) {
        case Kind::Undefined: return 0;
        case Kind::String: return static_cast<std::int64_t>(characters(value.text()));
        case Kind::List: return value.size;
        case Kind::Dict: return std::ssize(value.dict->entries);
        case Kind::Loop: return std::ssize(value.loop->items);
        default: refuse(std::string(name_of(value.kind)) + " has no length");
    }
}

bool is_iterable(const Value& value) {
    return value.is_undefined() || value.is(Kind::String) || value.is(Kind::List) ||
           value.is(Kind::Dict) || value.is(Kind::Loop);
}

std::span<const Value> iterate(const Value& value, Arena& arena) {
    switch (value.kind) {
        case Kind::Undefined: return {};
        case Kind::List: return value.list();
        case Kind::Dict: {
            std::vector<Value> keys;
            for (const Entry& entry : value.dict->entries) keys.push_back(string(entry.key));
            return arena.copy(keys);
        }
        case Kind::String: {
            std::vector<Value> found;
            for (std::string_view rest = value.text(); !rest.empty();) {
                const std::size_t size = character_size(rest);
                found.push_back(string(rest.substr(0, size)));
                rest.remove_prefix(size);
            }
            return arena.copy(found);
        }
        default: refuse(std::string("cannot loop over ") + name_of(value.kind));
    }
}

}  // namespace roll::chat
