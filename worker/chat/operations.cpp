#include <algorithm>
#include <cmath>

#include "worker/chat/renderer.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

std::int64_t whole_result(Op op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflow = false;
    switch (op) {
        case Op::Add: overflow = __builtin_add_overflow(a, b, &result); break;
        case Op::Subtract: overflow = __builtin_sub_overflow(a, b, &result); break;
        case Op::Multiply: overflow = __builtin_mul_overflow(a, b, &result); break;
        default:
            if (b == 0) refuse("a division by 0");
            if (b == -1) {
                overflow = op == Op::FloorDivide && __builtin_sub_overflow(0, a, &result);
            } else {
                const std::int64_t rest = a % b;
                const bool rounds = rest != 0 && (rest < 0) != (b < 0);
                result = op == Op::Modulo ? rest + (rounds ? b : 0) : a / b - (rounds ? 1 : 0);
            }
    }
    if (overflow) refuse("a number does not fit into 64 bits");
    return result;
}

double real_result(Op op, double a, double b) {
    switch (op) {
        case Op::Add: return a + b;
        case Op::Subtract: return a - b;
        case Op::Multiply: return a * b;
        case Op::Power: return std::pow(a, b);
        default: break;
    }
    if (b == 0) refuse("a division by 0");
    if (op == Op::Divide) return a / b;
    if (op == Op::FloorDivide) return std::floor(a / b);
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0)
        return number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    std::int64_t result = 1;
    if (base == 0 || base == 1) return integer(exponent == 0 ? 1 : base);
    if (base == -1) return integer(exponent % 2 == 0 ? 1 : -1);
    for (std::int64_t i = 0; i < exponent; ++i) result = whole_result(Op::Multiply, result, base);
    return integer(result);
}

Value repeated(Renderer& renderer, const Value& value, std::int64_t times) {
    const std::size_t count = times < 0 ? 0 : static_cast<std::size_t>(times);
    const std::size_t size = value.size;
    if (size != 0 && count > (std::size_t{16} << 20U) / size)
        refuse("the result of * is larger than 16 MiB, which is the limit");
    renderer.work(size * count);
    if (value.is(Kind::String)) {
        std::string made;
        for (std::size_t i = 0; size != 0 && i < count; ++i) made += value.text();
        return renderer.text(made);
    }
    std::vector<Value> items;
    for (std::size_t i = 0; size != 0 && i < count; ++i)
        items.insert(items.end(), value.list().begin(), value.list().end());
    return list(items, renderer.arena());
}

Value joined(Renderer& renderer, const Value& a, const Value& b) {
    renderer.work(std::size_t{a.size} + b.size);
    if (a.is(Kind::String)) return string(renderer.arena().join(a.text(), b.text()));
    std::vector<Value> items(a.list().begin(), a.list().end());
    items.insert(items.end(), b.list().begin(), b.list().end());
    return list(items, renderer.arena());
}

const char* sign_of(Op op) {
    switch (op) {
        case Op::Add: return "+";
        case Op::Subtract: return "-";
        case Op::Multiply: return "*";
        case Op::Divide: return "/";
        case Op::FloorDivide: return "//";
        case Op::Modulo: return "%";
        default: return "**";
    }
}

// Returns the index for one bound of a Python slice, clamped to [low, high]. If the bound is None,
// returns `usual`.
std::int64_t bound(const Value& value, std::int64_t usual, std::int64_t size, std::int64_t low,
                   std::int64_t high) {
    if (value.is(Kind::None)) return usual;
    const std::int64_t at = whole(value, "the bound of a slice");
    return std::clamp(at < 0 ? at + size : at, low, high);
}

}  // namespace

Value arithmetic(Renderer& renderer, Op op, const Value& a, const Value& b) {
    const bool texts = a.is(Kind::String) && b.is(Kind::String);
    const bool lists = a.is(Kind::List) && b.is(Kind::List);
    if (op == Op::Add && (texts || lists)) return joined(renderer, a, b);
    const auto repeats = [](const Value& value, const Value& times) {
        return (value.is(Kind::String) || value.is(Kind::List)) && times.is(Kind::Int);
    };
    if (op == Op::Multiply && repeats(a, b)) return repeated(renderer, a, b.integer);
    if (op == Op::Multiply && repeats(b, a)) return repeated(renderer, b, a.integer);
    if (!is_number(a) || !is_number(b))
        refuse(std::string("cannot compute ") + name_of(a.kind) + " " + sign_of(op) + " " +
               name_of(b.kind));
    if (a.is(Kind::Float) || b.is(Kind::Float) || op == Op::Divide)
        return number(real_result(op, real(a, ""), real(b, "")));
    if (op == Op::Power) return power(a.integer, b.integer);
    return integer(whole_result(op, a.integer, b.integer));
}

Value slice(Renderer& renderer, const Value& value, const Value& begin, const Value& end,
            const Value& step) {
    if (!value.is(Kind::String) && !value.is(Kind::List))
        refuse(std::string("cannot slice ") + name_of(value.kind));
    const std::int64_t stride = step.is(Kind::None) ? 1 : whole(step, "the step of a slice");
    if (stride == 0) refuse("the step of a slice is 0");
    const std::int64_t size = length(value);
    const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    const std::int64_t first = bound(begin, stride > 0 ? low : high, size, low, high);
    const std::int64_t last = bound(end, stride > 0 ? high : low, size, low, high);
    renderer.work(value.size);
    if (value.is(Kind::String) && stride == 1) {
        const std::string_view rest =
            value.text().substr(offset_of(value.text(), static_cast<std::size_t>(first)));
        const std::int64_t count = std::max<std::int64_t>(0, last - first);
        return string(rest.substr(0, offset_of(rest, static_cast<std::size_t>(count))));
    }
    const std::span<const Value> items = iterate(value, renderer.arena());
    std::vector<Value> kept;
    for (std::int64_t i = first; stride > 0 ? i < last : i > last;) {
        kept.push_back(items[static_cast<std::size_t>(i)]);
        if (__builtin_add_overflow(i, stride, &i)) break;
    }
    if (value.is(Kind::List)) return list(kept, renderer.arena());
    std::string made;
    for (const Value& character : kept) made += character.text();
    return renderer.text(made);
}

}  // namespace roll::chat
