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
// Computes a filter or a test. The first positional argument of `call` is the value to which the
// filter or test is applied.
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
    Filter,     // args[0] | text(args[1]...); Expression::text is the filter's name
    Test,       // args[0] is text(args[1]...); Expression::text is the test's name
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
    // chained comparison a < b < c, with args a < b and b < c
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
    int name = -1;              // for Name: the variable's index in Syntax::names
    int height = 0;             // number of levels of expressions below this one
    Value value = {};           // for Constant: the value; for Name: the built-in function, if any
    bool reads_later = false;   // for Name: the value may depend on later messages (growth.hpp)
    Builtin builtin = nullptr;  // for Filter and Test: the function; nullptr if Roll lacks it
    std::vector<Expression> args = {};
    // names of the keyword arguments; the last elements of `args` are their values
    std::vector<std::string> keywords = {};
};

enum class Does : std::uint8_t {
    Data,    // writes the constant exprs[0]
    Output,  // writes exprs[0]
    If,      // runs `body` if exprs[0] is true, else `other`
    // Runs `body` for each item of exprs[0], without the items for which exprs[1], if present, is
    // false. Runs `other` if no item is left.
    For,
    Set,      // assigns exprs[0] to the targets, or to an attribute of a namespace
    Capture,  // assigns the text of `body` to targets[0]
    // Defines the macro targets[0] with the parameters targets[1], ... `exprs` has the defaults of
    // the last parameters.
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
    std::string attribute = {};  // attribute to which Set assigns, in the namespace targets[0]
};

struct Syntax {
    Arena constants{std::size_t{64} << 20U};
    std::vector<Statement> body;
    // names of all variables; expressions refer to a variable by its index
    std::vector<std::string> names;
    bool has_generation = false;
    // index, in `body`, of the loop that may append the messages (growth.hpp); -1: there is none
    int growth = -1;
};

// Parses a template. Throws Failure with the line that cannot be parsed.
void parse_template(std::string_view source, Syntax& syntax);

// Return the function of a filter or a test; nullptr if Roll does not support the filter or test.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);

}  // namespace roll::chat
