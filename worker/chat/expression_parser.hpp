// Parses expressions with the operator precedence of jinja2.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "worker/chat/lexer.hpp"
#include "worker/chat/syntax.hpp"

namespace roll::chat {

class ExpressionParser {
  public:
    ExpressionParser(std::vector<Token> tokens, Syntax& syntax)
        : syntax_(syntax),
          tokens_(std::move(tokens)) {}

    Expression expression();     // parses any expression, including `a if b else c`
    Expression tuple();          // parses one expression, or several separated by commas
    Expression either();         // parses an expression that has no `if`
    std::vector<int> targets();  // parses variable names separated by commas
    int number_of(const std::string& name);

  protected:
    const Token& token() const { return tokens_[at_]; }
    const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token next();
    bool at(TokenKind kind, std::string_view text) const;
    bool take(std::string_view op);  // reads the operator `op` and returns true if it is next
    bool take_name(std::string_view name);
    void need(std::string_view op);
    std::string need_name(const char* what);
    [[noreturn]] void unexpected(const std::string& wanted) const;

    Syntax& syntax_;

  private:
    friend class Deeper;
    Expression both();
    Expression negation();
    Expression comparison();
    Expression sum();
    Expression concat();
    Expression product();
    Expression power();
    Expression unary(bool with_filter);
    Expression primary();
    Expression postfix(Expression value);
    Expression filters(Expression value);
    Expression subscript(Expression value);
    Expression call(Expression callee);
    Expression test(Expression value);
    Expression dict();
    Expression constant(const Value& value) const;
    Expression binary(Op op, Expression left, Expression right) const;
    void arguments(Expression& call);
    Expression named(const Token& token);

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace roll::chat
