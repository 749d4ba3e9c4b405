#include <algorithm>

#include "worker/chat/expression_parser.hpp"

namespace roll::chat {
namespace {

constexpr int kNestingMax = 50;
constexpr int kBranchesMax = 200;

class Parser : public ExpressionParser {
  public:
    using ExpressionParser::ExpressionParser;

    void run() {
        syntax_.body = statements({}, 1);
        if (token().kind != TokenKind::End) unexpected("the end of the template");
    }

  private:
    // Parses statements until the next token is the name of one of the tags in `ends`. `line` is
    // the line of the enclosing tag, for error messages.
    std::vector<Statement> statements(std::initializer_list<std::string_view> ends, int line) {
        if (++nesting_ > kNestingMax)
            refuse(
                "statements are nested too deeply; allowed: at most 50 levels; put the inner "
                "statements "
                "into a macro",
                line);
        std::vector<Statement> found;
        while (token().kind != TokenKind::End) {
            const Token begin = next();
            if (begin.kind == TokenKind::Data) {
                found.push_back(data(begin));
            } else if (begin.kind == TokenKind::OutputBegin) {
                found.push_back({Does::Output, begin.line});
                found.back().exprs.push_back(tuple());
                if (next().kind != TokenKind::OutputEnd) unexpected("}}");
            } else if (std::ranges::find(ends, token().text) != ends.end()) {
                --nesting_;
                return found;
            } else {
                found.push_back(statement());
            }
        }
        if (ends.size() != 0)
            refuse("found no {% " + std::string(*(ends.end() - 1)) + " %} for this tag", line);
        --nesting_;
        return found;
    }

    Statement data(const Token& token) {
        Statement statement{Does::Data, token.line};
        Expression text;
        text.value = string(syntax_.constants.copy(token.text));
        statement.exprs.push_back(std::move(text));
        return statement;
    }

    void end_tag() {
        if (token().kind != TokenKind::BlockEnd) unexpected("%}");
        next();
    }

    Statement statement() {
        const Token tag = next();
        if (tag.text == "if") return condition(tag.line);
        if (tag.text == "for") return loop(tag.line);
        if (tag.text == "set") return assignment(tag.line);
        if (tag.text == "macro") return macro(tag.line);
        Statement result{Does::Generation, tag.line};
        if (tag.text == "generation") {
            syntax_.has_generation = true;
            end_tag();
            result.body = statements({"endgeneration"}, tag.line);
            next();
        } else if ((tag.text == "break" || tag.text == "continue") && loops_ > 0) {
            result.does = tag.text == "break" ? Does::Break : Does::Continue;
        } else if (tag.text == "break" || tag.text == "continue") {
            refuse("the tag " + tag.text + " is outside a loop", tag.line);
        } else {
            refuse("the tag \"" + tag.text.substr(0, 40) +
                       "\" is not supported; Roll reads for, if, set, macro, generation, break, "
                       "continue and raw",
                   tag.line);
        }
        end_tag();
        return result;
    }

    Statement condition(int line) {
        Statement result{Does::If, line};
        result.exprs.push_back(tuple());
        end_tag();
        result.body = statements({"elif", "else", "endif"}, line);
        const Token tag = next();
        if (tag.text == "elif") {
            if (++branches_ > kBranchesMax)
                refuse(
                    "an if has too many branches; allowed: at most 200 elif; split it into several "
                    "ifs",
                    line);
            result.other.push_back(condition(tag.line));
            --branches_;
            return result;
        }
        end_tag();
        if (tag.text == "endif") return result;
        result.other = statements({"endif"}, line);
        next();
        end_tag();
        return result;
    }

    Statement loop(int line) {
        Statement result{Does::For, line};
        result.targets = targets();
        if (!take_name("in")) unexpected("\"in\"");
        result.exprs.push_back(either());
        if (take_name("if")) result.exprs.push_back(expression());
        if (at(TokenKind::Name, "recursive"))
            refuse("a recursive loop is not supported; use a macro that calls itself",
                   token().line);
        end_tag();
        ++loops_;
        result.body = statements({"else", "endfor"}, line);
        --loops_;
        const Token tag = next();
        end_tag();
        if (tag.text == "endfor") return result;
        result.other = statements({"endfor"}, line);
        next();
        end_tag();
        return result;
    }

    Statement assignment(int line) {
        Statement result{Does::Set, line};
        if (token().kind == TokenKind::Name && after().text == "." &&
            after().kind == TokenKind::Operator) {
            result.targets = {number_of(next().text)};
            next();
            result.attribute = need_name("the name of an attribute");
            if (result.attribute.starts_with('_'))
                refuse("the attribute " + result.attribute + " begins with _", line);
        } else {
            result.targets = targets();
        }
        if (take("=")) {
            result.exprs.push_back(tuple());
            end_tag();
            return result;
        }
        result.does = Does::Capture;
        if (at(TokenKind::Operator, "|"))
            refuse(
                "a filter in a set block is not supported; apply the filter where the variable is "
                "used",
                line);
        if (result.targets.size() != 1) unexpected("\"=\"");
        end_tag();
        const int loops = std::exchange(loops_, 0);
        result.body = statements({"endset"}, line);
        loops_ = loops;
        next();
        end_tag();
        return result;
    }

    Statement macro(int line) {
        Statement result{Does::Macro, line};
        if (loops_ > 0 || macros_ > 0)
            refuse(
                "a macro inside a loop or inside another macro is not supported; define it outside",
                line);
        result.targets = {number_of(need_name("the name of a macro"))};
        need("(");
        while (!take(")")) {
            if (result.targets.size() > 1) need(",");
            result.targets.push_back(number_of(need_name("the name of a parameter")));
            if (take("="))
                result.exprs.push_back(expression());
            else if (!result.exprs.empty())
                refuse("a parameter without a default follows a parameter with a default", line);
        }
        end_tag();
        ++macros_;
        const int loops = std::exchange(loops_, 0);
        result.body = statements({"endmacro"}, line);
        loops_ = loops;
        --macros_;
        next();
        end_tag();
        return result;
    }

    int nesting_ = 0, branches_ = 0, loops_ = 0, macros_ = 0;
};

}  // namespace

void parse_template(std::string_view source, Syntax& syntax) {
    Parser(tokens_of(source), syntax).run();
}

}  // namespace roll::chat
