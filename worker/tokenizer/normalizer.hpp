// Normalizes text before the text is split: the `normalizer` of a tokenizer file. Supports NFC,
// Precompiled, Prepend, Replace, Strip and Sequence. Immutable; any thread may use it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"
#include "worker/tokenizer/precompiled.hpp"

namespace roll::tokenizer {

class Normalizer {
  public:
    // Parses the file's normalizer. Fails with InvalidArgument for an unsupported kind; the message
    // names the kind.
    static Result<Normalizer> parse(const Json& json);

    bool is_identity() const { return steps_.empty(); }
    std::string apply(std::string_view text) const;

    // Returns the number of bytes at the beginning of apply(text) that replace the first character
    // of `text`. Returns at least 1, unless `text` is empty.
    std::size_t head(std::string_view text) const;

  private:
    struct Compose {};
    struct Prepend {
        std::string text;
    };
    struct Replace {
        Pattern pattern;
        std::string text;
    };
    struct Strip {
        bool left = true;
        bool right = true;
    };
    using Step = std::variant<Compose, Precompiled, Prepend, Replace, Strip>;

    static std::string apply(const Compose&, std::string_view text);
    static std::string apply(const Precompiled& map, std::string_view text);
    static std::string apply(const Prepend& prepend, std::string_view text);
    static std::string apply(const Replace& replace, std::string_view text);
    static std::string apply(const Strip& strip, std::string_view text);
    Result<void> add(const Json& json, int depth);

    std::vector<Step> steps_;
};

// Parses the pattern of Split or Replace, which is {"String": "text"} or {"Regex": "expression"}.
// Error messages name `owner`.
Result<Pattern> parse_pattern(const Json& json, const std::string& owner);

// Returns the "type" of a JSON object. Error messages name `owner`.
Result<std::string> parse_type(const Json& json, const std::string& owner);

// Returns `json` if it is an array. Otherwise fails; the message names `owner`.
Result<const Json*> parse_list(const Json& json, const std::string& owner);

// Largest nesting depth of Sequences in a tokenizer file.
constexpr int kNestingMax = 8;

}  // namespace roll::tokenizer
