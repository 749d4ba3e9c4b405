#include "worker/chat/growth.hpp"

#include <algorithm>
#include <array>

namespace roll::chat {
namespace {

// Attributes of `loop` that do not depend on later items
constexpr std::array<std::string_view, 6> kOfEarlier = {"first",    "index", "index0",
                                                        "previtem", "depth", "depth0"};

// Variables whose values may depend on later messages, as indices in Syntax::names. An index is -1
// if the template does not have the variable, or if the name has another meaning at this place
// (`loop` in an inner loop).
struct Variables {
    int messages = -1, loop = -1, prompt = -1;

    bool has(int name) const {
        return name >= 0 && (name == messages || name == loop || name == prompt);
    }
};

bool is_first_message(const Expression& expr, const Variables& variables) {
    if (expr.op != Op::Item || expr.args[0].op != Op::Name) return false;
    const Expression& key = expr.args[1];
    return expr.args[0].name == variables.messages && key.op == Op::Constant &&
           key.value.is(Kind::Int) && key.value.integer == 0;
}

bool is_of_earlier(const Expression& expr, const Variables& variables) {
    return expr.op == Op::Attribute && expr.args[0].op == Op::Name &&
           expr.args[0].name == variables.loop &&
           std::ranges::find(kOfEarlier, expr.text) != kOfEarlier.end();
}

// Marks the variables of an expression whose values may depend on later messages. Also marks the
// function that returns the time, because the texts at stops must not depend on the time.
void mark(Expression& expr, const Variables& variables) {
    if (expr.op == Op::Name) {
        const bool time =
            expr.value.is(Kind::Function) && expr.value.function == Function::StrftimeNow;
        expr.reads_later = time || variables.has(expr.name);
    }
    if (is_first_message(expr, variables) || is_of_earlier(expr, variables)) return;
    for (Expression& one : expr.args) mark(one, variables);
}

void mark(Statement& statement, const Variables& variables) {
    for (Expression& one : statement.exprs) mark(one, variables);
    Variables inside = variables;
    // in the body, `loop` belongs to this statement
    if (statement.does == Does::For) inside.loop = -1;
    for (Statement& one : statement.body) mark(one, inside);
    // In `other`, which runs if the loop has no items, `loop` belongs to the enclosing loop.
    for (Statement& one : statement.other) mark(one, variables);
}

// Returns whether a statement may set one of the variables, end the loop early, or contain the tag
// `generation`.
bool interferes(const Statement& statement, const Variables& variables) {
    const auto any = [&](const Statement& one) { return interferes(one, variables); };
    return statement.does == Does::Break || statement.does == Does::Generation ||
           std::ranges::any_of(statement.targets, [&](int name) { return variables.has(name); }) ||
           std::ranges::any_of(statement.body, any) || std::ranges::any_of(statement.other, any);
}

bool has_call(const Expression& expr) {
    return expr.op == Op::Call || std::ranges::any_of(expr.args, has_call);
}

// Returns whether a statement only writes, so that it can run any number of times.
bool only_writes(const Statement& statement) {
    if (statement.does != Does::Data && statement.does != Does::Output &&
        statement.does != Does::If)
        return false;
    return std::ranges::none_of(statement.exprs, has_call) &&
           std::ranges::all_of(statement.body, only_writes) &&
           std::ranges::all_of(statement.other, only_writes);
}

}  // namespace

void find_growth(Syntax& syntax) {
    const auto index_of = [&](std::string_view name) {
        const auto found = std::ranges::find(syntax.names, name);
        return found == syntax.names.end() ? -1 : static_cast<int>(found - syntax.names.begin());
    };
    const Variables variables{index_of("messages"), index_of("loop"), index_of(kPromptName)};
    const auto appends = [&](const Statement& one) {
        return one.does == Does::For && one.exprs.size() == 1 && one.exprs[0].op == Op::Name &&
               one.exprs[0].name == variables.messages;
    };
    const auto loop = std::ranges::find_if(syntax.body, appends);
    if (variables.messages < 0 || loop == syntax.body.end()) return;
    const bool ends = std::all_of(loop + 1, syntax.body.end(), only_writes);
    const bool steady = std::ranges::none_of(
        syntax.body, [&](const Statement& one) { return interferes(one, variables); });
    if (!ends || !steady) return;
    syntax.growth = static_cast<int>(loop - syntax.body.begin());
    for (auto one = syntax.body.begin(); one != loop; ++one) mark(*one, variables);
    for (Statement& one : loop->body) mark(one, variables);
    // The statements after the loop may read add_generation_prompt, so pass -1 for this variable.
    for (auto one = loop + 1; one != syntax.body.end(); ++one)
        mark(*one, {variables.messages, variables.loop, -1});
}

}  // namespace roll::chat
