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
    // content of a Data or Text token; for a Text token, without quotes and escapes
    std::string text;
    int line = 0;
};

// Returns the tokens; the last token is End. Throws Failure with the line of the source that is not
// valid.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace roll::chat
