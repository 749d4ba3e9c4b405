#include <algorithm>
#include <cmath>

#include "worker/chat/json_value.hpp"
#include "worker/chat/renderer.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

constexpr std::size_t kTextMax = std::size_t{16} << 20U;

std::string_view text_of(Renderer& renderer, const Call& call) {
    const std::string_view text = str(call.need(0, ""), renderer.arena());
    renderer.work(text.size());
    return text;
}

Value trim(Renderer& renderer, const Call& call) {
    return string(strip(text_of(renderer, call), Side::Both, call.text_if_given(1, "chars")));
}

Value tojson(Renderer& renderer, const Call& call) {
    JsonStyle style;
    style.ascii = call.flag(1, "ensure_ascii", false);
    style.sort_keys = call.flag(4, "sort_keys", false);
    if (const Value* indent = call.given(2, "indent")) {
        style.indent = static_cast<int>(
            std::clamp<std::int64_t>(whole(*indent, "the indent of tojson"), 0, 64));
        style.between = ",";
    }
    if (const Value* marks = call.given(3, "separators")) {
        if (!marks->is(Kind::List) || marks->size != 2 || !marks->items[0].is(Kind::String) ||
            !marks->items[1].is(Kind::String))
            refuse("tojson: separators must be two strings");
        style.between = marks->items[0].text();
        style.after_key = marks->items[1].text();
    }
    std::string made;
    write_json(call.need(0, ""), style, made);
    renderer.work(made.size());
    return renderer.text(made);
}

Value count(Renderer&, const Call& call) { return integer(length(call.need(0, ""))); }

Value usual(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    const bool given = call.flag(2, "boolean", false) ? truth(value) : !value.is_undefined();
    if (given) return value;
    const Value* const other = call.find(1, "default_value");
    return other == nullptr ? string("") : *other;
}

Value as_text(Renderer& renderer, const Call& call) { return string(text_of(renderer, call)); }
template <std::string (*change)(std::string_view)>
Value in_case(Renderer& renderer, const Call& call) {
    return renderer.text(change(text_of(renderer, call)));
}

// Capitalizes each word. Words are separated by spaces, hyphens and opening brackets.
Value title_case(Renderer& renderer, const Call& call) {
    std::string made, word;
    const auto end_word = [&] {
        if (word.empty()) return;
        const std::size_t size = character_size(word);
        made += upper(word.substr(0, size)) + lower(word.substr(size));
        word.clear();
    };
    for (std::string_view rest = text_of(renderer, call); !rest.empty();) {
        const std::string_view character = rest.substr(0, character_size(rest));
        const bool divides = is_space(first_character(character)) ||
                             std::string_view("-({[<").find(character) != std::string_view::npos;
        if (divides) end_word();
        (divides ? made : word) += character;
        rest.remove_prefix(character.size());
    }
    end_word();
    return renderer.text(made);
}

Value replace(Renderer& renderer, const Call& call) {
    const std::string_view text = text_of(renderer, call);
    const std::string_view from = call.text(1, "old", ""), to = call.text(2, "new", "");
    const Value* const limit = call.given(3, "count");
    const std::int64_t most = limit == nullptr ? -1 : whole(*limit, "the count of replace");
    std::size_t found = from.empty() ? text.size() + 1 : 0;
    if (!from.empty())
        for (std::size_t at = text.find(from); at != std::string_view::npos;
             at = text.find(from, at + from.size()))
            ++found;
    if (found != 0 && to.size() > kTextMax / found)
        refuse("the result of replace is larger than 16 MiB, which is the limit");
    renderer.work(found * to.size());
    return renderer.text(replaced(text, from, to, most));
}

Value items(Renderer& renderer, const Call& call) {
    const Value& value = call.need(0, "");
    if (value.is_undefined()) return list(std::span<const Value>());
    if (!value.is(Kind::Dict))
        refuse(std::string("items: ") + name_of(value.kind) + " is not a dict");
    return call_method(renderer, value, {"items", {}, {}, {}});
}

// Returns the sort key of a value, for sort, dictsort, min and max. If `with_case` is false, the
// key of a string is the string in lower case.
Value key_of(Renderer& renderer, const Value& value, bool with_case) {
    if (with_case || !value.is(Kind::String)) return value;
    renderer.work(value.size);
    return renderer.text(lower(value.text()));
}

struct Keyed {
    Value key, value;
};

Value sorted(Renderer& renderer, std::vector<Keyed> all, bool reverse) {
    renderer.work(all.size() * 64);
    std::ranges::stable_sort(all, [&](const Keyed& a, const Keyed& b) {
        return reverse ? compare(b.key, a.key) < 0 : compare(a.key, b.key) < 0;
    });
    std::vector<Value> values;
    for (const Keyed& one : all) values.push_back(one.value);
    return list(values, renderer.arena());
}

Value dictsort(Renderer& renderer, const Call& call) {
    const Value& value = call.need(0, "");
    if (!value.is(Kind::Dict))
        refuse(std::string("dictsort: ") + name_of(value.kind) + " is not a dict");
    const bool with_case = call.flag(1, "case_sensitive", false);
    const bool by_value = call.text(2, "by", "key") == "value";
    std::vector<Keyed> all;
    for (const Value& pair : items(renderer, {"items", std::span(&value, 1), {}, {}}).list())
        all.push_back({key_of(renderer, pair.items[by_value ? 1 : 0], with_case), pair});
    return sorted(renderer, std::move(all), call.flag(3, "reverse", false));
}

// Returns the value at a path of attributes and indices, such as "function.name" or "0".
Value follow(Renderer& renderer, Value value, const Value& path) {
    if (!path.is(Kind::String)) return renderer.item(value, path);
    for (const std::string_view part : split(path.text(), ".", -1, false)) {
        const bool index = !part.empty() && part.size() < 10 &&
                           part.find_first_not_of("0123456789") == std::string_view::npos;
        value = renderer.item(value, index ? integer(std::stoll(std::string(part))) : string(part));
    }
    return value;
}

Value sort(Renderer& renderer, const Call& call) {
    const bool with_case = call.flag(2, "case_sensitive", false);
    const Value* const path = call.given(3, "attribute");
    std::vector<Keyed> all;
    for (const Value& value : iterate(call.need(0, ""), renderer.arena())) {
        const Value key = path == nullptr ? value : follow(renderer, value, *path);
        all.push_back({key_of(renderer, key, with_case), value});
    }
    return sorted(renderer, std::move(all), call.flag(1, "reverse", false));
}

Value join(Renderer& renderer, const Call& call) {
    const Value* const between = call.find(1, "d");
    const std::string_view mark =
        between == nullptr ? std::string_view() : str(*between, renderer.arena());
    const Value* const path = call.find(2, "attribute");
    std::string made;
    bool first = true;
    for (const Value& value : iterate(call.need(0, ""), renderer.arena())) {
        if (!std::exchange(first, false)) made += mark;
        append_str(path == nullptr ? value : follow(renderer, value, *path), made);
        if (made.size() > kTextMax)
            refuse("the result of join is larger than 16 MiB, which is the limit");
    }
    renderer.work(made.size());
    return renderer.text(made);
}

Value as_list(Renderer& renderer, const Call& call) {
    const auto all = iterate(call.need(0, ""), renderer.arena());
    renderer.work(all.size() * sizeof(Value));
    return list(all);
}

// Returns a list of `value` and the positional arguments from index `from` on.
std::vector<Value> after(const Call& call, std::size_t from, const Value& value) {
    std::vector<Value> all{value};
    if (call.positional.size() > from)
        all.insert(all.end(), call.positional.begin() + static_cast<std::ptrdiff_t>(from),
                   call.positional.end());
    return all;
}

Value map(Renderer& renderer, const Call& call) {
    const Value* const path = call.find(SIZE_MAX, "attribute");
    const Value* const other = call.find(SIZE_MAX, "default");
    std::vector<Value> made;
    for (const Value& value : iterate(call.need(0, ""), renderer.arena())) {
        renderer.work(0);
        if (path != nullptr) {
            const Value found = follow(renderer, value, *path);
            made.push_back(found.is_undefined() && other != nullptr ? *other : found);
            continue;
        }
        const std::string_view name = call.text(1, "", "");
        const std::vector<Value> given = after(call, 2, value);
        made.push_back(renderer.filter(name, {name, given, call.keywords, call.named}));
    }
    return list(made, renderer.arena());
}

template <bool by_attribute, bool wanted>
Value choose(Renderer& renderer, const Call& call) {
    constexpr std::size_t kTest = by_attribute ? 2 : 1;
    std::vector<Value> kept;
    for (const Value& value : iterate(call.need(0, ""), renderer.arena())) {
        renderer.work(0);
        const Value found = by_attribute ? follow(renderer, value, call.need(1, "")) : value;
        bool holds = truth(found);
        if (call.positional.size() > kTest) {
            const std::string_view name = call.text(kTest, "", "");
            const std::vector<Value> given = after(call, kTest + 1, found);
            holds = renderer.test(name, {name, given, {}, {}});
        }
        if (holds == wanted) kept.push_back(value);
    }
    return list(kept, renderer.arena());
}

template <bool from_end>
Value one_end(Renderer& renderer, const Call& call) {
    const auto all = iterate(call.need(0, ""), renderer.arena());
    if (all.empty()) return {};
    return from_end ? all.back() : all.front();
}

Value reverse(Renderer& renderer, const Call& call) {
    const Value& value = call.need(0, "");
    if (value.is(Kind::String)) return slice(renderer, value, none(), none(), integer(-1));
    return slice(renderer, list(iterate(value, renderer.arena())), none(), none(), integer(-1));
}

Value unique(Renderer& renderer, const Call& call) {
    const bool with_case = call.flag(1, "case_sensitive", false);
    std::vector<Value> keys, kept;
    for (const Value& value : iterate(call.need(0, ""), renderer.arena())) {
        const Value key = key_of(renderer, value, with_case);
        renderer.work(keys.size() * sizeof(Value));
        if (std::ranges::any_of(keys, [&](const Value& one) { return equal(one, key); })) continue;
        keys.push_back(key);
        kept.push_back(value);
    }
    return list(kept, renderer.arena());
}

template <bool largest>
Value extreme(Renderer& renderer, const Call& call) {
    const auto all = iterate(call.need(0, ""), renderer.arena());
    if (all.empty()) return {};
    Value best = all.front();
    for (const Value& value : all.subspan(1)) {
        const int order = compare(key_of(renderer, value, false), key_of(renderer, best, false));
        if (largest ? order > 0 : order < 0) best = value;
    }
    return best;
}

Value total(Renderer& renderer, const Call& call) {
    Value sum = integer(0);
    for (const Value& value : iterate(call.need(0, ""), renderer.arena()))
        sum = arithmetic(renderer, Op::Add, sum, value);
    return sum;
}

Value as_integer(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    const Value* const other = call.find(1, "default");
    const Value usual_value = other == nullptr ? integer(0) : *other;
    if (value.is(Kind::Int) || value.is(Kind::Bool)) return integer(value.integer);
    double real_value = 0;
    if (value.is(Kind::Float)) {
        real_value = value.number;
    } else if (value.is(Kind::String)) {
        const std::string text(strip(value.text(), Side::Both));
        char* end = nullptr;
        errno = 0;
        const long long read = std::strtoll(text.c_str(), &end, 10);
        if (!text.empty() && *end == '\0' && errno == 0) return integer(read);
        real_value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0') return usual_value;
    } else {
        return usual_value;
    }
    if (!(std::abs(real_value) < 9e18)) return usual_value;
    return integer(static_cast<std::int64_t>(real_value));
}

Value as_float(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    if (is_number(value)) return number(real(value, ""));
    const Value* const other = call.find(1, "default");
    if (value.is(Kind::String)) {
        const std::string text(strip(value.text(), Side::Both));
        char* end = nullptr;
        const double read = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == '\0') return number(read);
    }
    return other == nullptr ? number(0) : *other;
}

Value absolute(Renderer& renderer, const Call& call) {
    const Value& value = call.need(0, "");
    if (value.is(Kind::Float)) return number(std::abs(value.number));
    const std::int64_t held = whole(value, "abs: the value");
    return held < 0 ? arithmetic(renderer, Op::Subtract, integer(0), integer(held)) : integer(held);
}

Value indent(Renderer& renderer, const Call& call) {
    const Value* const width = call.find(1, "width");
    std::string margin(4, ' ');
    if (width != nullptr && width->is(Kind::String))
        margin = width->text();
    else if (width != nullptr)
        margin = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                 whole(*width, "the width of indent"), 0, 1000)),
                             ' ');
    const bool first = call.flag(2, "first", false), blank = call.flag(3, "blank", false);
    const std::string ended = std::string(text_of(renderer, call)) + "\n";
    std::string made = first ? margin : "";
    bool at_start = true;
    for (const std::string_view line : split_lines(ended, false)) {
        if (!std::exchange(at_start, false)) made += blank || !line.empty() ? "\n" + margin : "\n";
        made += line;
        if (made.size() > kTextMax)
            refuse("the result of indent is larger than 16 MiB, which is the limit");
    }
    renderer.work(made.size());
    return renderer.text(made);
}

struct NamedFilter {
    std::string_view name;
    Builtin run;
};

constexpr NamedFilter kFilters[] = {
    {"trim", trim},
    {"tojson", tojson},
    {"length", count},
    {"count", count},
    {"default", usual},
    {"d", usual},
    {"string", as_text},
    {"safe", as_text},
    {"upper", in_case<upper>},
    {"lower", in_case<lower>},
    {"capitalize", in_case<capitalized>},
    {"title", title_case},
    {"replace", replace},
    {"items", items},
    {"dictsort", dictsort},
    {"sort", sort},
    {"join", join},
    {"list", as_list},
    {"map", map},
    {"select", choose<false, true>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<true, false>},
    {"first", one_end<false>},
    {"last", one_end<true>},
    {"reverse", reverse},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"sum", total},
    {"int", as_integer},
    {"float", as_float},
    {"abs", absolute},
    {"indent", indent},
};

}  // namespace

Builtin find_filter(std::string_view name) {
    const auto* const found = std::ranges::find(kFilters, name, &NamedFilter::name);
    return found == std::end(kFilters) ? nullptr : found->run;
}

}  // namespace roll::chat
