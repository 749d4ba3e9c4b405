// How tokens become text again: the `decoder` of a tokenizer file. Built are ByteLevel,
// ByteFallback, Fuse, Strip, Replace, Metaspace and Sequence. Immutable; any thread may use it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {

class Decoder {
  public:
    // Error InvalidArgument: a kind that is not built, by name.
    static Result<Decoder> parse(const Json& json);

    // The text of the tokens. Bytes that are no UTF-8 become U+FFFD, as the kinds say.
    std::string apply(std::vector<std::string> tokens) const;

  private:
    struct ByteLevel {};
    struct ByteFallback {};
    struct Fuse {};
    struct Strip {
        std::string content;
        std::size_t start = 0;
        std::size_t stop = 0;
    };
    struct Replace {
        Pattern pattern;
        std::string text;
    };
    struct Metaspace {
        std::string replacement;
        bool prepended = true;
    };
    using Tokens = std::vector<std::string>;
    static void step(const ByteLevel&, Tokens& tokens);
    static void step(const ByteFallback&, Tokens& tokens);
    static void step(const Fuse&, Tokens& tokens);
    static void step(const Strip& strip, Tokens& tokens);
    static void step(const Replace& replace, Tokens& tokens);
    static void step(const Metaspace& metaspace, Tokens& tokens);

    Result<void> add(const Json& json, int depth);

    std::vector<std::variant<ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace>> steps_;
    bool present_ = false;  // without a decoder, tokens are joined by spaces
};

}  // namespace roll::tokenizer
