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
// Computes a filter or a test from the arguments of a call, whose first one is the value before it.
using Builtin = Value (*)(Renderer& renderer, const Call& call);

enum class Op : std::uint8_t {
    Constant,
    Name,
    List,
    Dict,
    Attribute,  // args[0].text
    Item,       // args[0][args[1]]
    Slice,      // args[0][args[1]:args[2]:args[3]]; None stands for a bound that is left out
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
    Chain,  // a < b < c: args are comparisons; each one's second operand is the next one's first
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
    int name = -1;              // of a Name: its number
    int height = 0;             // levels of expressions below this one
    Value value = {};           // of a Constant; of a name that is a function
    Builtin builtin = nullptr;  // of a Filter or Test; nullptr if Roll has none of this name
    std::vector<Expression> args = {};
    // names of the last arguments, which were passed by name
    std::vector<std::string> keywords = {};
};

enum class Does : std::uint8_t {
    Data,     // writes exprs[0], a constant
    Output,   // writes exprs[0]
    If,       // exprs[0] ? body : other
    For,      // targets of exprs[0], if exprs[1]; `other` runs if nothing was visited
    Set,      // targets or space.attribute = exprs[0]
    Capture,  // targets = text of body
    Macro,    // defines targets[0] with the parameters targets[1]...; exprs are the last defaults
    Generation,  // body is what the model learns
    Break,
    Continue
};

struct Statement {
    Does does = Does::Data;
    int line = 0;
    std::vector<Expression> exprs = {};
    std::vector<Statement> body = {}, other = {};
    std::vector<int> targets = {};
    std::string attribute = {};  // of a Set: attribute of the namespace targets[0]
};

struct Syntax {
    Arena constants{std::size_t{64} << 20U};
    std::vector<Statement> body;
    std::vector<std::string> names;  // names of variables by number
    bool has_generation = false;
};

// Parses a template. Throws Failure with the line of what it cannot read.
void parse_template(std::string_view source, Syntax& syntax);

// Return nullptr if Roll has no filter or test of this name.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);

}  // namespace roll::chat
