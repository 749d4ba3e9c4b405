// How text is cut into words, which the model then encodes one by one: the `pre_tokenizer` of a
// tokenizer file. Built are ByteLevel, Split, Digits, Metaspace, WhitespaceSplit and Sequence.
// Immutable; any thread may use it, each with scratch texts of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {

// Takes one word. The view holds for the call only.
class WordSink {
  public:
    virtual ~WordSink() = default;
    virtual void word(std::string_view text) = 0;
};

class PreTokenizer {
  public:
    using Scratch = std::vector<std::string>;  // one text a step

    // Error InvalidArgument: a kind that is not built, by name.
    static Result<PreTokenizer> parse(const Json& json);

    // Whether the model's vocabulary spells bytes as visible characters. Words stay plain bytes
    // here all the same.
    bool byte_level() const { return byte_level_; }

    // Every word in order. `head`: so many of the text's first bytes stand at the input's start,
    // being what its first character became; 0 where the text does not begin there.
    void split(std::string_view text, std::size_t head, Scratch& scratch, WordSink& sink) const;

  private:
    enum class Behavior : std::uint8_t { Removed, Isolated, WithPrevious, WithNext, Contiguous };
    enum class Prepend : std::uint8_t { Always, First, Never };
    struct Spaced {};  // ByteLevel's add_prefix_space
    struct Split {
        Pattern pattern;
        Behavior behavior = Behavior::Isolated;
        bool invert = false;
    };
    struct Digits {
        bool individual = false;
    };
    struct Metaspace {
        std::string replacement;
        Prepend prepend = Prepend::Always;
        bool split = true;
    };
    struct Run;  // one text's way through the steps

    Result<void> add(const Json& json, int depth);
    Result<void> add_byte_level(JsonReader& reader);
    Result<void> add_split(JsonReader& reader);
    Result<void> add_metaspace(JsonReader& reader);
    Result<void> add_whitespace_split(JsonReader& reader);

    std::vector<std::variant<Spaced, Split, Digits, Metaspace>> steps_;
    bool byte_level_ = false;
};

// As decoders read it too: the character, and whether one is put before the text.
struct MetaspaceFields {
    std::string replacement;
    std::string prepend_scheme;  // always, first or never
    bool split = true;
};
Result<MetaspaceFields> parse_metaspace(JsonReader& reader);

}  // namespace roll::tokenizer
