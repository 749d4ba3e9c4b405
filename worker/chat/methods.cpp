#include <algorithm>

#include "worker/chat/json_value.hpp"
#include "worker/chat/renderer.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

using MethodOf = Value (*)(Renderer& renderer, const Value& self, const Call& call);

struct NamedMethod {
    std::string_view name;
    MethodOf run;  // nullptr if Python has this method but Roll does not support it
};

template <Side side>
Value strip_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    return string(strip(self.text(), side, call.text_if_given(0, "chars")));
}

template <bool from_right>
Value split_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    const auto separator = call.text_if_given(0, "sep");
    if (separator && separator->empty()) refuse("split: the separator is empty");
    const Value* const most = call.find(1, "maxsplit");
    std::vector<Value> parts;
    for (const std::string_view part :
         split(self.text(), separator, most == nullptr ? -1 : whole(*most, "maxsplit"), from_right))
        parts.push_back(string(part));
    return list(parts, renderer.arena());
}

template <bool at_end>
Value affix_method(Renderer& renderer, const Value& self, const Call& call) {
    const Value& wanted = call.need(0, "");
    if (call.positional.size() > 1) refuse(std::string(call.name) + " takes one argument");
    const auto fits = [&](const Value& one) {
        if (!one.is(Kind::String)) refuse(std::string(call.name) + " takes strings");
        renderer.work(one.size);
        return at_end ? self.text().ends_with(one.text()) : self.text().starts_with(one.text());
    };
    if (wanted.is(Kind::List)) return boolean(std::ranges::any_of(wanted.list(), fits));
    return boolean(fits(wanted));
}

template <bool at_end>
Value remove_method(Renderer&, const Value& self, const Call& call) {
    const std::string_view affix = call.text(0, "", ""), text = self.text();
    if (!at_end && text.starts_with(affix)) return string(text.substr(affix.size()));
    if (at_end && text.ends_with(affix)) return string(text.substr(0, text.size() - affix.size()));
    return self;
}

template <std::string (*change)(std::string_view)>
Value case_method(Renderer& renderer, const Value& self, const Call&) {
    renderer.work(self.size);
    return renderer.text(change(self.text()));
}

template <bool (*check)(std::string_view)>
Value check_method(Renderer& renderer, const Value& self, const Call&) {
    renderer.work(self.size);
    return boolean(check(self.text()));
}

Value replace_method(Renderer& renderer, const Value& self, const Call& call) {
    const Value* const most = call.find(2, "count");
    const std::vector<Value> given = {self, call.need(0, "old"), call.need(1, "new"),
                                      most == nullptr ? integer(-1) : *most};
    return renderer.filter("replace", {call.name, given, {}, {}});
}

template <bool from_right, bool must>
Value find_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    if (call.positional.size() > 1)
        refuse(std::string(call.name) +
               " accepts only the text to find; a start and an end are not supported");
    const std::string_view text = self.text(), wanted = call.text(0, "", "");
    const std::size_t at = from_right ? text.rfind(wanted) : text.find(wanted);
    if (must && at == std::string_view::npos)
        refuse(std::string(call.name) + ": the text was not found");
    if (at == std::string_view::npos) return integer(-1);
    return integer(static_cast<std::int64_t>(characters(text.substr(0, at))));
}

Value count_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    const std::string_view text = self.text(), wanted = call.text(0, "", "");
    if (wanted.empty()) return integer(length(self) + 1);
    std::int64_t count = 0;
    for (std::size_t at = text.find(wanted); at != std::string_view::npos;
         at = text.find(wanted, at + wanted.size()))
        ++count;
    return integer(count);
}

Value join_method(Renderer& renderer, const Value& self, const Call& call) {
    const std::vector<Value> given = {call.need(0, ""), self};
    return renderer.filter("join", {call.name, given, {}, {}});
}

template <bool from_right>
Value partition_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    const std::string_view text = self.text(), wanted = call.text(0, "", "");
    if (wanted.empty()) refuse("partition: the separator is empty");
    const std::size_t at = from_right ? text.rfind(wanted) : text.find(wanted);
    const Value none = string("");
    if (at == std::string_view::npos)
        return list(from_right ? std::vector{none, none, self} : std::vector{self, none, none},
                    renderer.arena());
    return list(std::vector{string(text.substr(0, at)), string(wanted),
                            string(text.substr(at + wanted.size()))},
                renderer.arena());
}

Value splitlines_method(Renderer& renderer, const Value& self, const Call& call) {
    renderer.work(self.size);
    std::vector<Value> lines;
    for (const std::string_view line : split_lines(self.text(), call.flag(0, "keepends", false)))
        lines.push_back(string(line));
    return list(lines, renderer.arena());
}

constexpr NamedMethod kOfString[] = {
    {"strip", strip_method<Side::Both>},
    {"lstrip", strip_method<Side::Left>},
    {"rstrip", strip_method<Side::Right>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"removeprefix", remove_method<false>},
    {"removesuffix", remove_method<true>},
    {"replace", replace_method},
    {"upper", case_method<upper>},
    {"lower", case_method<lower>},
    {"title", case_method<titled>},
    {"capitalize", case_method<capitalized>},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count_method},
    {"join", join_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"isdigit", check_method<all_digits>},
    {"isalpha", check_method<all_letters>},
    {"isalnum", check_method<all_letters_or_digits>},
    {"isspace", check_method<all_spaces>},
    {"islower", check_method<is_lower>},
    {"isupper", check_method<is_upper>},
    {"format", nullptr},
    {"format_map", nullptr},
    {"encode", nullptr},
    {"zfill", nullptr},
    {"center", nullptr},
    {"ljust", nullptr},
    {"rjust", nullptr},
    {"expandtabs", nullptr},
    {"casefold", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
    {"istitle", nullptr},
    {"isnumeric", nullptr},
    {"isdecimal", nullptr},
    {"isascii", nullptr},
    {"isidentifier", nullptr},
    {"isprintable", nullptr},
};

Value get_method(Renderer&, const Value& self, const Call& call) {
    const Value& key = call.need(0, "");
    const Value* const found = key.is(Kind::String) ? self.dict->find(key.text()) : nullptr;
    if (found != nullptr) return *found;
    const Value* const usual = call.find(1, "");
    return usual == nullptr ? none() : *usual;
}

Value items_method(Renderer& renderer, const Value& self, const Call&) {
    renderer.work(self.dict->entries.size() * sizeof(Entry));
    std::vector<Value> items;
    for (const Entry& entry : self.dict->entries)
        items.push_back(list(std::vector{string(entry.key), entry.value}, renderer.arena()));
    return list(items, renderer.arena());
}

Value keys_method(Renderer& renderer, const Value& self, const Call&) {
    return list(iterate(self, renderer.arena()));
}

Value values_method(Renderer& renderer, const Value& self, const Call&) {
    std::vector<Value> values;
    for (const Entry& entry : self.dict->entries) values.push_back(entry.value);
    return list(values, renderer.arena());
}

Value copy_method(Renderer&, const Value& self, const Call&) { return self; }

constexpr NamedMethod kOfDict[] = {{"get", get_method},   {"items", items_method},
                                   {"keys", keys_method}, {"values", values_method},
                                   {"copy", copy_method}, {"fromkeys", nullptr}};

Value list_count_method(Renderer& renderer, const Value& self, const Call& call) {
    const Value& wanted = call.need(0, "");
    renderer.work(self.size * sizeof(Value));
    return integer(
        std::ranges::count_if(self.list(), [&](const Value& item) { return equal(item, wanted); }));
}

Value list_index_method(Renderer& renderer, const Value& self, const Call& call) {
    const Value& wanted = call.need(0, "");
    renderer.work(self.size * sizeof(Value));
    for (std::uint32_t i = 0; i < self.size; ++i)
        if (equal(self.items[i], wanted)) return integer(i);
    refuse("index: the value is not in the list");
}

constexpr NamedMethod kOfList[] = {
    {"count", list_count_method}, {"index", list_index_method}, {"copy", copy_method}};

std::span<const NamedMethod> methods_of(const Value& self) {
    if (self.is(Kind::String)) return kOfString;
    if (self.is(Kind::Dict)) return kOfDict;
    if (self.is(Kind::List)) return kOfList;
    return {};
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
    const auto all = methods_of(self);
    return std::ranges::find(all, name, &NamedMethod::name) != all.end();
}

Value call_method(Renderer& renderer, const Value& self, const Call& call) {
    const auto all = methods_of(self);
    const auto found = std::ranges::find(all, call.name, &NamedMethod::name);
    if (found == all.end() || found->run == nullptr)
        refuse("the method " + std::string(call.name) + " of " + name_of(self.kind) +
               " is not supported");
    return found->run(renderer, self, call);
}

}  // namespace roll::chat
