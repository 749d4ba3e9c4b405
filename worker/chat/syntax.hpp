// The parsed form of a template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/chat/value.hpp"

namespace roll::chat {

class Renderer;
struct Call;
// Computes a filter or a test. The first argument of `call` is the value to which it is applied.
using Builtin = Value (*)(Renderer& renderer, const Call& call);

enum class Op : std::uint8_t {
    Constant,
    Name,
    List,
    Dict,
    Attribute,  // args[0].text
    Item,       // args[0][args[1]]
    Slice,      // args[0][args[1]:args[2]:args[3]]; an omitted bound is None
    Call,       // args[0](args[1]...)
    Filter,     // args[0] | text(args[1]...)
    Test,       // args[0] is text(args[1]...)
    Not,
    Negative,
    And,
    Or,
    If,  // args[1] if args[0] else args[2]
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
    // a chained comparison a < b < c: args are the comparisons a < b and b < c
    Chain,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    Concat
};

struct Expression {
    Op op = Op::Constant;
    int line = 0;
    std::string text = {};
    int name = -1;              // a Name's index in Syntax::names
    int height = 0;             // number of levels of expressions below this one
    Value value = {};           // a Constant's value, or a Name's built-in function, if any
    Builtin builtin = nullptr;  // function of a Filter or Test; nullptr if Roll lacks it
    std::vector<Expression> args = {};
    // names of the keyword arguments, which are the last elements of `args`
    std::vector<std::string> keywords = {};
};

enum class Does : std::uint8_t {
    Data,    // writes the constant exprs[0]
    Output,  // writes exprs[0]
    If,      // runs `body` if exprs[0] is true, else `other`
    // Runs `body` for each item of exprs[0] for which exprs[1], if present, is true. Runs `other`
    // if there is no such item.
    For,
    Set,      // assigns exprs[0] to the targets, or to an attribute of a namespace
    Capture,  // assigns the text of `body` to targets[0]
    // Defines the macro targets[0] with the parameters targets[1], ... The expressions are the
    // defaults of the last parameters.
    Macro,
    Generation,  // marks the text of `body` for the loss
    Break,
    Continue
};

struct Statement {
    Does does = Does::Data;
    int line = 0;
    std::vector<Expression> exprs = {};
    std::vector<Statement> body = {}, other = {};
    std::vector<int> targets = {};
    std::string attribute = {};  // attribute that Set assigns in the namespace targets[0]
};

struct Syntax {
    Arena constants{std::size_t{64} << 20U};
    std::vector<Statement> body;
    std::vector<std::string> names;  // names of all variables; expressions refer to them by index
    bool has_generation = false;
};

// Parses a template. Throws Failure with the line of the text that cannot be parsed.
void parse_template(std::string_view source, Syntax& syntax);

// Return the function of a filter or a test; nullptr if Roll does not support it.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);

}  // namespace roll::chat
