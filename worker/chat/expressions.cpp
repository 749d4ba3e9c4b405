#include <algorithm>

#include "worker/chat/json_value.hpp"
#include "worker/chat/renderer.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

Value undefined(std::string_view name) {
    Value value = string(name);
    value.kind = Kind::Undefined;
    return value;
}

// Returns a description of an undefined value, for error messages.
std::string said(const Value& value) {
    return value.size == 0 ? "an undefined value"
                           : "the undefined \"" + std::string(value.text()) + "\"";
}

bool relation(Op op, const Value& a, const Value& b) {
    switch (op) {
        case Op::Equal: return equal(a, b);
        case Op::NotEqual: return !equal(a, b);
        case Op::Less: return compare(a, b) < 0;
        case Op::LessEqual: return compare(a, b) <= 0;
        case Op::Greater: return compare(a, b) > 0;
        default: return compare(a, b) >= 0;
    }
}

}  // namespace

Value Renderer::eval(const Expression& expr) {
    const Deeper deeper(*this);
    work(0);
    const auto operand = [&](std::size_t i) { return eval(expr.args[i]); };
    switch (expr.op) {
        case Op::Constant: return expr.value;
        case Op::Name: return eval_name(expr);
        case Op::List: return eval_list(expr);
        case Op::Dict: return eval_dict(expr);
        case Op::Attribute: return attribute(operand(0), expr.text);
        case Op::Item: {
            const Value value = operand(0);
            return item(value, operand(1));
        }
        case Op::Slice: return eval_slice(expr);
        case Op::Call: return eval_call(expr);
        case Op::Filter:
        case Op::Test: return eval_builtin(expr);
        case Op::Not: return boolean(!truth(operand(0)));
        case Op::Negative: return arithmetic(*this, Op::Subtract, integer(0), operand(0));
        case Op::And: {
            const Value first = operand(0);
            return truth(first) ? operand(1) : first;
        }
        case Op::Or: {
            const Value first = operand(0);
            return truth(first) ? first : operand(1);
        }
        case Op::If: return operand(truth(operand(0)) ? 1 : 2);
        case Op::Chain: return eval_chain(expr);
        default: return binary(expr);
    }
}

Value Renderer::eval_name(const Expression& expr) {
    if (expr.reads_later) drop_stops();
    if (const Value* found = find(expr.name)) return *found;
    return expr.value.is(Kind::Function) ? expr.value : undefined(expr.text);
}

Value Renderer::eval_list(const Expression& expr) {
    std::vector<Value> items;
    for (const Expression& arg : expr.args) items.push_back(eval(arg));
    return list(items, arena_);
}

Value Renderer::eval_dict(const Expression& expr) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < expr.args.size(); i += 2) {
        const Value key = eval(expr.args[i]);
        if (!key.is(Kind::String))
            refuse("a dict has a key that is not a string; only strings are supported");
        entries.push_back({key.text(), eval(expr.args[i + 1])});
    }
    return dict(std::move(entries), arena_);
}

Value Renderer::eval_slice(const Expression& expr) {
    const Value value = eval(expr.args[0]), begin = eval(expr.args[1]), end = eval(expr.args[2]);
    return slice(*this, value, begin, end, eval(expr.args[3]));
}

Value Renderer::eval_chain(const Expression& expr) {
    for (const Expression& link : expr.args)
        if (!truth(eval(link))) return boolean(false);
    return boolean(true);
}

bool Renderer::contains(const Value& whole, const Value& part) {
    if (whole.is(Kind::String)) {
        if (!part.is(Kind::String))
            refuse(std::string("a string cannot contain ") + name_of(part.kind));
        work(whole.size);
        return whole.text().find(part.text()) != std::string_view::npos;
    }
    if (whole.is(Kind::Dict))
        return part.is(Kind::String) && whole.dict->find(part.text()) != nullptr;
    const std::span<const Value> items = iterate(whole, arena_);
    work(items.size() * sizeof(Value));
    return std::ranges::any_of(items, [&](const Value& item) { return equal(item, part); });
}

Value Renderer::binary(const Expression& expr) {
    const Value a = eval(expr.args[0]), b = eval(expr.args[1]);
    switch (expr.op) {
        case Op::In: return boolean(contains(b, a));
        case Op::NotIn: return boolean(!contains(b, a));
        case Op::Concat: {
            std::string made(str(a, arena_));
            append_str(b, made);
            work(made.size());
            return text(made);
        }
        case Op::Add:
        case Op::Subtract:
        case Op::Multiply:
        case Op::Divide:
        case Op::FloorDivide:
        case Op::Modulo:
        case Op::Power:
            for (const Value* value : {&a, &b})
                if (value->is_undefined()) refuse(said(*value) + " is used in an operation");
            return arithmetic(*this, expr.op, a, b);
        default:
            work(a.is(Kind::String) ? std::size_t{a.size} : std::size_t{0});
            return boolean(relation(expr.op, a, b));
    }
}

Value Renderer::method(const Value& self, std::string_view name) {
    Method* const made = arena_.make<Method>(1);
    std::construct_at(made, Method{self, name});
    Value value;
    value.kind = Kind::Method;
    value.method = made;
    return value;
}

Value Renderer::loop_attribute(const Loop& loop, std::string_view name) {
    const std::int64_t index = static_cast<std::int64_t>(loop.index), size = std::ssize(loop.items);
    if (name == "index") return integer(index + 1);
    if (name == "index0") return integer(index);
    if (name == "revindex") return integer(size - index);
    if (name == "revindex0") return integer(size - index - 1);
    if (name == "first") return boolean(index == 0);
    if (name == "last") return boolean(index + 1 == size);
    if (name == "length") return integer(size);
    if (name == "depth") return integer(1);
    if (name == "depth0") return integer(0);
    if (name == "previtem")
        return index == 0 ? undefined("there is no previous item") : loop.items[loop.index - 1];
    if (name == "nextitem")
        return index + 1 == size ? undefined("there is no next item") : loop.items[loop.index + 1];
    refuse("loop." + std::string(name) + " is not supported");
}

Value Renderer::attribute(const Value& value, std::string_view name) {
    switch (value.kind) {
        case Kind::Undefined: refuse(said(value) + " has no attribute " + std::string(name));
        case Kind::Dict:
            if (has_method(value, name)) return method(value, name);
            if (const Value* found = value.dict->find(name)) return *found;
            break;
        case Kind::Namespace:
            for (const auto& [key, held] : value.space->values)
                if (key == name) return held;
            break;
        case Kind::Loop: return loop_attribute(*value.loop, name);
        default:
            if (has_method(value, name)) return method(value, name);
    }
    return undefined(name);
}

Value Renderer::item(const Value& value, const Value& key) {
    if (value.is_undefined()) refuse(said(value) + " has no items");
    if (key.is(Kind::String)) {
        if (value.is(Kind::Dict))
            if (const Value* found = value.dict->find(key.text())) return *found;
        return value.is(Kind::Namespace) || value.is(Kind::Loop) || has_method(value, key.text())
                   ? attribute(value, key.text())
                   : undefined(key.text());
    }
    const bool number = key.is(Kind::Int) || key.is(Kind::Bool);
    if (!number || !(value.is(Kind::List) || value.is(Kind::String)))
        return undefined(str(key.is(Kind::Int) ? key : string("item"), arena_));
    const std::int64_t size = length(value);
    const std::int64_t at = key.integer < 0 ? key.integer + size : key.integer;
    if (at < 0 || at >= size) return undefined(str(integer(key.integer), arena_));
    if (value.is(Kind::List)) return value.items[at];
    work(value.size);
    const std::string_view rest =
        value.text().substr(offset_of(value.text(), static_cast<std::size_t>(at)));
    return string(rest.substr(0, character_size(rest)));
}

Value Renderer::invoke(const Value& callee, const Call& call) {
    switch (callee.kind) {
        case Kind::Macro: return call_macro(*callee.macro, call);
        case Kind::Function: return call_function(callee.function, call);
        case Kind::Method: return call_method(*this, callee.method->self, call);
        case Kind::Undefined: refuse(std::string(call.name) + " is undefined and cannot be called");
        default: refuse(std::string(name_of(callee.kind)) + " cannot be called");
    }
}

Value Renderer::eval_call(const Expression& expr) {
    const Expression& named = expr.args[0];
    const bool has_name = named.op == Op::Attribute || named.op == Op::Name;
    Value self, callee;
    if (named.op == Op::Attribute) {
        self = eval(named.args[0]);
        if (!has_method(self, named.text)) callee = attribute(self, named.text);
    } else {
        callee = eval(named);
    }
    std::vector<Value> values;
    values.reserve(expr.args.size() - 1);
    for (std::size_t i = 1; i < expr.args.size(); ++i) values.push_back(eval(expr.args[i]));
    const std::span<const Value> all(values);
    const std::size_t positional = all.size() - expr.keywords.size();
    line_ = expr.line;
    std::string_view name = has_name ? std::string_view(named.text) : "this value";
    if (callee.is(Kind::Method)) name = callee.method->name;
    const Call call{name, all.first(positional), expr.keywords, all.subspan(positional)};
    const bool calls_method = named.op == Op::Attribute && has_method(self, named.text);
    return calls_method ? call_method(*this, self, call) : invoke(callee, call);
}

Value Renderer::eval_builtin(const Expression& expr) {
    std::vector<Value> values;
    values.reserve(expr.args.size());
    for (const Expression& arg : expr.args) values.push_back(eval(arg));
    const std::span<const Value> all(values);
    const std::size_t positional = all.size() - expr.keywords.size();
    line_ = expr.line;
    if (expr.builtin == nullptr)
        refuse(std::string(expr.op == Op::Filter ? "the filter " : "the test ") + expr.text +
               " is not supported");
    return expr.builtin(*this,
                        {expr.text, all.first(positional), expr.keywords, all.subspan(positional)});
}

Value Renderer::filter(std::string_view name, const Call& call) {
    const Builtin builtin = find_filter(name);
    if (builtin == nullptr) refuse("the filter " + std::string(name) + " is not supported");
    return builtin(*this, call);
}

bool Renderer::test(std::string_view name, const Call& call) {
    const Builtin builtin = find_test(name);
    if (builtin == nullptr) refuse("the test " + std::string(name) + " is not supported");
    return truth(builtin(*this, call));
}

}  // namespace roll::chat
