// Splits the source of a template into tokens, like jinja2 with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roll::chat {

enum class TokenKind {
    Data,
    BlockBegin,
    BlockEnd,
    OutputBegin,
    OutputEnd,
    Name,
    Text,
    Integer,
    Float,
    Operator,
    End
};

struct Token {
    TokenKind kind = TokenKind::End;
    std::string text;  // content of a Data or Text token, without quotes and escapes
    int line = 0;
};

// Returns the tokens; the last one is End. Throws Failure with a line of the source.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace roll::chat
