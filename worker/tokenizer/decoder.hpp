// Converts tokens to text: the `decoder` of a tokenizer file. Supports ByteLevel, ByteFallback,
// Fuse, Strip, Replace, Metaspace and Sequence. Immutable; any thread may use it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {

class Decoder {
  public:
    // Parses the file's decoder. Fails with InvalidArgument for an unsupported kind; the message
    // names the kind.
    static Result<Decoder> parse(const Json& json);

    // Returns the text of the tokens. Replaces invalid UTF-8 by U+FFFD; the kind of the decoder
    // determines how many bytes one U+FFFD replaces.
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
    bool present_ = false;  // true: the file has a decoder; false: tokens are joined with spaces
};

}  // namespace roll::tokenizer
