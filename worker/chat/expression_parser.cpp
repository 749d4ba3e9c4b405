#include "worker/chat/expression_parser.hpp"

#include <algorithm>
#include <charconv>

namespace roll::chat {
namespace {

constexpr int kParseDepthMax = 100;
constexpr int kHeightMax = 200;

// Sets the expression's height and returns the expression. Fails if the height is above the limit,
// because the renderer and the destructors recurse once for each level.
Expression sealed(Expression expression) {
    for (const Expression& arg : expression.args)
        expression.height = std::max(expression.height, arg.height + 1);
    if (expression.height > kHeightMax)
        refuse(
            "an expression is nested too deeply; allowed: at most 200 levels; split it with {% set "
            "%}",
            expression.line);
    return expression;
}

std::string quoted(const Token& token) {
    switch (token.kind) {
        case TokenKind::BlockEnd: return "%}";
        case TokenKind::OutputEnd: return "}}";
        case TokenKind::End: return "the end of the template";
        default: return "\"" + token.text.substr(0, 40) + "\"";
    }
}

struct Operator {
    std::string_view text;
    Op op;
};

constexpr Operator kComparisons[] = {{"==", Op::Equal},     {"!=", Op::NotEqual},
                                     {"<=", Op::LessEqual}, {">=", Op::GreaterEqual},
                                     {"<", Op::Less},       {">", Op::Greater}};
constexpr Operator kProducts[] = {
    {"*", Op::Multiply}, {"/", Op::Divide}, {"//", Op::FloorDivide}, {"%", Op::Modulo}};

}  // namespace

// While an object of this class exists, the parser's nesting depth is one level higher.
class Deeper {
  public:
    explicit Deeper(ExpressionParser& parser) : parser_(parser) {
        if (++parser_.depth_ > kParseDepthMax)
            refuse(
                "an expression is nested too deeply; allowed: at most 100 levels; split it with "
                "{% set %}",
                parser_.token().line);
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --parser_.depth_; }

  private:
    ExpressionParser& parser_;
};

Token ExpressionParser::next() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool ExpressionParser::at(TokenKind kind, std::string_view text) const {
    return token().kind == kind && token().text == text;
}

bool ExpressionParser::take(std::string_view op) {
    const bool found = at(TokenKind::Operator, op);
    if (found) next();
    return found;
}

bool ExpressionParser::take_name(std::string_view name) {
    const bool found = at(TokenKind::Name, name);
    if (found) next();
    return found;
}

void ExpressionParser::need(std::string_view op) {
    if (!take(op)) unexpected("\"" + std::string(op) + "\"");
}

std::string ExpressionParser::need_name(const char* what) {
    if (token().kind != TokenKind::Name) unexpected(what);
    return next().text;
}

void ExpressionParser::unexpected(const std::string& wanted) const {
    refuse("expected " + wanted + ", found " + quoted(token()), token().line);
}

int ExpressionParser::number_of(const std::string& name) {
    const auto found = std::ranges::find(syntax_.names, name);
    if (found != syntax_.names.end()) return static_cast<int>(found - syntax_.names.begin());
    syntax_.names.push_back(name);
    return static_cast<int>(syntax_.names.size()) - 1;
}

Expression ExpressionParser::constant(const Value& value) const {
    Expression result;
    result.line = token().line;
    result.value = value;
    return result;
}

Expression ExpressionParser::binary(Op op, Expression left, Expression right) const {
    Expression result;
    result.op = op;
    result.line = left.line;
    result.args.push_back(std::move(left));
    result.args.push_back(std::move(right));
    return sealed(std::move(result));
}

Expression ExpressionParser::tuple() {
    Expression first = expression();
    if (!at(TokenKind::Operator, ",")) return first;
    Expression all;
    all.op = Op::List;
    all.line = first.line;
    all.args.push_back(std::move(first));
    while (take(",")) {
        const bool ends = token().kind == TokenKind::BlockEnd ||
                          token().kind == TokenKind::OutputEnd || at(TokenKind::Operator, ")");
        if (ends) break;
        all.args.push_back(expression());
    }
    return sealed(std::move(all));
}

std::vector<int> ExpressionParser::targets() {
    std::vector<int> numbers;
    const bool bracket = take("(");
    do {
        numbers.push_back(number_of(need_name("the name of a variable")));
    } while (take(","));
    if (bracket) need(")");
    return numbers;
}

Expression ExpressionParser::expression() {
    const Deeper deeper(*this);
    Expression value = either();
    while (take_name("if")) {
        Expression result;
        result.op = Op::If;
        result.line = value.line;
        result.args.push_back(either());
        result.args.push_back(std::move(value));
        if (take_name("else"))
            result.args.push_back(expression());
        else
            result.args.push_back(constant(Value()));
        value = sealed(std::move(result));
    }
    return value;
}

Expression ExpressionParser::either() {
    Expression value = both();
    while (take_name("or")) value = binary(Op::Or, std::move(value), both());
    return value;
}

Expression ExpressionParser::both() {
    Expression value = negation();
    while (take_name("and")) value = binary(Op::And, std::move(value), negation());
    return value;
}

Expression ExpressionParser::negation() {
    const Deeper deeper(*this);
    if (!take_name("not")) return comparison();
    Expression result;
    result.op = Op::Not;
    result.line = token().line;
    result.args.push_back(negation());
    return sealed(std::move(result));
}

Expression ExpressionParser::comparison() {
    Expression left = sum();
    std::vector<Expression> found;
    while (true) {
        const auto* const op = std::ranges::find_if(
            kComparisons, [&](const Operator& one) { return at(TokenKind::Operator, one.text); });
        Op kind = Op::In;
        if (op != std::end(kComparisons)) {
            kind = op->op;
            next();
        } else if (at(TokenKind::Name, "not") && after().text == "in") {
            kind = Op::NotIn;
            next();
            next();
        } else if (!take_name("in")) {
            break;
        }
        Expression right = sum();
        Expression again = right;
        found.push_back(binary(kind, std::move(left), std::move(right)));
        left = std::move(again);
    }
    if (found.empty()) return left;
    if (found.size() == 1) return std::move(found.front());
    Expression chain;
    chain.op = Op::Chain;
    chain.line = found.front().line;
    chain.args = std::move(found);
    return sealed(std::move(chain));
}

Expression ExpressionParser::sum() {
    Expression value = concat();
    while (at(TokenKind::Operator, "+") || at(TokenKind::Operator, "-")) {
        const Op op = next().text == "+" ? Op::Add : Op::Subtract;
        value = binary(op, std::move(value), concat());
    }
    return value;
}

Expression ExpressionParser::concat() {
    Expression value = product();
    while (take("~")) value = binary(Op::Concat, std::move(value), product());
    return value;
}

Expression ExpressionParser::product() {
    Expression value = power();
    while (true) {
        const auto* const op = std::ranges::find_if(
            kProducts, [&](const Operator& one) { return at(TokenKind::Operator, one.text); });
        if (op == std::end(kProducts)) return value;
        next();
        value = binary(op->op, std::move(value), power());
    }
}

Expression ExpressionParser::power() {
    Expression value = unary(/*with_filter=*/true);
    while (take("**")) value = binary(Op::Power, std::move(value), unary(/*with_filter=*/true));
    return value;
}

Expression ExpressionParser::unary(bool with_filter) {
    const Deeper deeper(*this);
    Expression value;
    if (take("-")) {
        value.op = Op::Negative;
        value.line = token().line;
        value.args.push_back(unary(/*with_filter=*/false));
    } else if (take("+")) {
        value = unary(/*with_filter=*/false);
    } else {
        value = primary();
    }
    value = postfix(sealed(std::move(value)));
    return with_filter ? filters(std::move(value)) : value;
}

Expression ExpressionParser::named(const Token& token) {
    if (token.text == "true" || token.text == "True") return constant(boolean(true));
    if (token.text == "false" || token.text == "False") return constant(boolean(false));
    if (token.text == "none" || token.text == "None") return constant(none());
    Expression result;
    result.op = Op::Name;
    result.line = token.line;
    result.text = token.text;
    result.name = number_of(token.text);
    static constexpr std::pair<std::string_view, Function> kFunctions[] = {
        {"range", Function::Range},
        {"namespace", Function::Namespace},
        {"dict", Function::Dict},
        {"raise_exception", Function::RaiseException},
        {"strftime_now", Function::StrftimeNow}};
    for (const auto& [name, function] : kFunctions) {
        if (name != token.text) continue;
        result.value.kind = Kind::Function;
        result.value.function = function;
    }
    return result;
}

Expression ExpressionParser::primary() {
    const Token found = next();
    if (found.kind == TokenKind::Name) return named(found);
    if (found.kind == TokenKind::Text) {
        std::string text = found.text;
        while (token().kind == TokenKind::Text) text += next().text;
        return constant(string(syntax_.constants.copy(text)));
    }
    if (found.kind == TokenKind::Integer) {
        std::int64_t value = 0;
        const char* const end = found.text.data() + found.text.size();
        const auto read = std::from_chars(found.text.data(), end, value);
        if (read.ec != std::errc()) refuse(found.text + " does not fit into 64 bits", found.line);
        return constant(integer(value));
    }
    if (found.kind == TokenKind::Float)
        return constant(number(std::strtod(found.text.c_str(), nullptr)));
    if (found.kind == TokenKind::Operator && found.text == "(") {
        Expression value;
        value.op = Op::List;
        if (!at(TokenKind::Operator, ")")) value = tuple();
        need(")");
        return value;
    }
    if (found.kind == TokenKind::Operator && found.text == "[") {
        Expression value;
        value.op = Op::List;
        value.line = found.line;
        while (!take("]")) {
            if (!value.args.empty()) need(",");
            if (take("]")) break;
            value.args.push_back(expression());
        }
        return value;
    }
    if (found.kind == TokenKind::Operator && found.text == "{") return dict();
    refuse("expected an expression, found " + quoted(found), found.line);
}

Expression ExpressionParser::dict() {
    Expression value;
    value.op = Op::Dict;
    value.line = token().line;
    while (!take("}")) {
        if (!value.args.empty()) need(",");
        if (take("}")) break;
        value.args.push_back(expression());
        need(":");
        value.args.push_back(expression());
    }
    return value;
}

Expression ExpressionParser::postfix(Expression value) {
    for (int links = 0; links < kParseDepthMax; ++links) {
        if (at(TokenKind::Operator, ".") || at(TokenKind::Operator, "["))
            value = subscript(std::move(value));
        else if (at(TokenKind::Operator, "("))
            value = call(std::move(value));
        else
            return value;
    }
    refuse(
        "an expression has too many attributes, items and calls in a row; allowed: fewer than 100; "
        "split it with {% set %}",
        token().line);
}

Expression ExpressionParser::filters(Expression value) {
    for (int links = 0; links < kParseDepthMax; ++links) {
        if (take("|")) {
            Expression filter;
            filter.op = Op::Filter;
            filter.line = token().line;
            filter.text = need_name("the name of a filter");
            filter.builtin = find_filter(filter.text);
            filter.args.push_back(std::move(value));
            if (take("(")) arguments(filter);
            value = sealed(std::move(filter));
        } else if (take_name("is")) {
            value = test(std::move(value));
        } else if (at(TokenKind::Operator, "(")) {
            value = call(std::move(value));
        } else {
            return value;
        }
    }
    refuse(
        "an expression has too many filters and tests in a row; allowed: fewer than 100; split it "
        "with {% set %}",
        token().line);
}

Expression ExpressionParser::subscript(Expression value) {
    const int line = token().line;
    if (take(".")) {
        Expression result;
        result.line = line;
        if (token().kind == TokenKind::Integer)
            return binary(Op::Item, std::move(value), primary());
        result.op = Op::Attribute;
        result.text = need_name("the name of an attribute");
        result.args.push_back(std::move(value));
        return sealed(std::move(result));
    }
    need("[");
    const auto bound = [&] {
        const bool left_out = at(TokenKind::Operator, ":") || at(TokenKind::Operator, "]");
        return left_out ? constant(none()) : expression();
    };
    Expression first = bound();
    if (take("]")) return binary(Op::Item, std::move(value), std::move(first));
    Expression slice = binary(Op::Slice, std::move(value), std::move(first));
    for (int i = 0; i < 2; ++i) slice.args.push_back(take(":") ? bound() : constant(none()));
    need("]");
    return sealed(std::move(slice));
}

// Parses arguments up to the closing bracket. The opening bracket must have been read.
void ExpressionParser::arguments(Expression& call) {
    bool first = true;
    while (!take(")")) {
        if (!std::exchange(first, false)) need(",");
        if (take(")")) return;
        if (at(TokenKind::Operator, "*") || at(TokenKind::Operator, "**"))
            refuse("arguments with * or ** are not supported; write each argument", token().line);
        const bool by_name = token().kind == TokenKind::Name && after().text == "=" &&
                             after().kind == TokenKind::Operator;
        if (by_name) {
            call.keywords.push_back(next().text);
            next();
        } else if (!call.keywords.empty()) {
            unexpected("an argument with a name");
        }
        call.args.push_back(expression());
    }
}

Expression ExpressionParser::call(Expression callee) {
    Expression result;
    result.op = Op::Call;
    result.line = token().line;
    need("(");
    result.args.push_back(std::move(callee));
    arguments(result);
    return sealed(std::move(result));
}

// Parses a test. The word `is` must have been read.
Expression ExpressionParser::test(Expression value) {
    const bool negated = take_name("not");
    Expression result;
    result.op = Op::Test;
    result.line = token().line;
    result.text = need_name("the name of a test");
    result.builtin = find_test(result.text);
    result.args.push_back(std::move(value));
    const Token& follows = token();
    const bool literal = follows.kind == TokenKind::Text || follows.kind == TokenKind::Integer ||
                         follows.kind == TokenKind::Float;
    const bool name = follows.kind == TokenKind::Name && follows.text != "else" &&
                      follows.text != "or" && follows.text != "and" && follows.text != "if" &&
                      follows.text != "is" && follows.text != "in" && follows.text != "not";
    const bool bracket = at(TokenKind::Operator, "[") || at(TokenKind::Operator, "{");
    if (take("("))
        arguments(result);
    else if (literal || name || bracket)
        result.args.push_back(postfix(primary()));
    result = sealed(std::move(result));
    if (!negated) return result;
    Expression opposite;
    opposite.op = Op::Not;
    opposite.line = result.line;
    opposite.args.push_back(std::move(result));
    return sealed(std::move(opposite));
}

}  // namespace roll::chat
