#include <algorithm>
#include <functional>

#include "worker/chat/renderer.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

template <Kind kind>
Value of_kind(Renderer&, const Call& call) {
    return boolean(call.need(0, "").is(kind));
}

Value is_defined(Renderer&, const Call& call) { return boolean(!call.need(0, "").is_undefined()); }
template <bool wanted>
Value is_flag(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    return boolean(value.is(Kind::Bool) && truth(value) == wanted);
}
Value is_any_number(Renderer&, const Call& call) { return boolean(is_number(call.need(0, ""))); }
Value is_list_like(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    return boolean(is_iterable(value) && !value.is(Kind::Loop));
}
Value is_looped(Renderer&, const Call& call) { return boolean(is_iterable(call.need(0, ""))); }
Value is_callable(Renderer&, const Call& call) {
    const Kind kind = call.need(0, "").kind;
    return boolean(kind == Kind::Macro || kind == Kind::Function || kind == Kind::Method);
}
Value is_odd(Renderer&, const Call& call) {
    return boolean(whole(call.need(0, ""), "odd: the value") % 2 != 0);
}
Value is_even(Renderer&, const Call& call) {
    return boolean(whole(call.need(0, ""), "even: the value") % 2 == 0);
}
Value is_divisible(Renderer& renderer, const Call& call) {
    const Value rest = arithmetic(renderer, Op::Modulo, call.need(0, ""), call.need(1, "num"));
    return boolean(!truth(rest));
}
Value is_equal(Renderer&, const Call& call) {
    return boolean(equal(call.need(0, ""), call.need(1, "")));
}
Value is_not_equal(Renderer&, const Call& call) {
    return boolean(!equal(call.need(0, ""), call.need(1, "")));
}
Value is_same(Renderer&, const Call& call) {
    const Value &a = call.need(0, ""), &b = call.need(1, "");
    return boolean(a.kind == b.kind && equal(a, b));
}
// Holds is a comparison such as std::less. It compares the result of compare() with 0.
template <class Holds>
Value is_ordered(Renderer&, const Call& call) {
    return boolean(Holds()(compare(call.need(0, ""), call.need(1, "")), 0));
}
Value is_in(Renderer& renderer, const Call& call) {
    const Value &part = call.need(0, ""), &all = call.need(1, "seq");
    if (all.is(Kind::String) && part.is(Kind::String))
        return boolean(all.text().find(part.text()) != std::string_view::npos);
    const auto items = iterate(all, renderer.arena());
    renderer.work(items.size() * sizeof(Value));
    return boolean(
        std::ranges::any_of(items, [&](const Value& item) { return equal(item, part); }));
}
template <bool (*check)(std::string_view)>
Value is_text(Renderer&, const Call& call) {
    const Value& value = call.need(0, "");
    return boolean(value.is(Kind::String) && check(value.text()));
}

struct NamedTest {
    std::string_view name;
    Builtin run;
};

constexpr NamedTest kTests[] = {
    {"defined", is_defined},
    {"undefined", of_kind<Kind::Undefined>},
    {"none", of_kind<Kind::None>},
    {"boolean", of_kind<Kind::Bool>},
    {"true", is_flag<true>},
    {"false", is_flag<false>},
    {"string", of_kind<Kind::String>},
    {"integer", of_kind<Kind::Int>},
    {"float", of_kind<Kind::Float>},
    {"number", is_any_number},
    {"mapping", of_kind<Kind::Dict>},
    {"sequence", is_list_like},
    {"iterable", is_looped},
    {"callable", is_callable},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"==", is_equal},
    {"ne", is_not_equal},
    {"!=", is_not_equal},
    {"sameas", is_same},
    {"lt", is_ordered<std::less<>>},
    {"lessthan", is_ordered<std::less<>>},
    {"<", is_ordered<std::less<>>},
    {"le", is_ordered<std::less_equal<>>},
    {"<=", is_ordered<std::less_equal<>>},
    {"gt", is_ordered<std::greater<>>},
    {"greaterthan", is_ordered<std::greater<>>},
    {">", is_ordered<std::greater<>>},
    {"ge", is_ordered<std::greater_equal<>>},
    {">=", is_ordered<std::greater_equal<>>},
    {"in", is_in},
    {"lower", is_text<is_lower>},
    {"upper", is_text<is_upper>},
};

}  // namespace

Builtin find_test(std::string_view name) {
    const auto* const found = std::ranges::find(kTests, name, &NamedTest::name);
    return found == std::end(kTests) ? nullptr : found->run;
}

}  // namespace roll::chat
