// Splits text into words: the `pre_tokenizer` of a tokenizer file. The model then encodes the words
// one by one. Supports ByteLevel, Split, Digits, Metaspace, WhitespaceSplit and Sequence.
// Immutable; several threads may split, each with its own Scratch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {

// Receives one word per call. The view is valid only during the call.
class WordSink {
  public:
    virtual ~WordSink() = default;
    virtual void word(std::string_view text) = 0;
};

class PreTokenizer {
  public:
    using Scratch = std::vector<std::string>;  // buffers, one per step

    // Parses the file's pre-tokenizer. Fails with InvalidArgument for an unsupported kind; the
    // message names the kind.
    static Result<PreTokenizer> parse(const Json& json);

    // Returns true if the model's vocabulary represents bytes by visible characters. Even then,
    // split() emits words of plain bytes.
    bool byte_level() const { return byte_level_; }

    // Emits every word in order. `head` is the number of bytes at the beginning of `text` that come
    // from the first character of the input. It is 0 if `text` is not the start of the input.
    void split(std::string_view text, std::size_t head, Scratch& scratch, WordSink& sink) const;

  private:
    enum class Behavior : std::uint8_t { Removed, Isolated, WithPrevious, WithNext, Contiguous };
    enum class Prepend : std::uint8_t { Always, First, Never };
    struct Spaced {};  // a step that adds a leading space: ByteLevel's add_prefix_space
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
    struct Run;  // state of one call of split()

    Result<void> add(const Json& json, int depth);
    Result<void> add_byte_level(JsonReader& reader);
    Result<void> add_split(JsonReader& reader);
    Result<void> add_metaspace(JsonReader& reader);
    Result<void> add_whitespace_split(JsonReader& reader);

    std::vector<std::variant<Spaced, Split, Digits, Metaspace>> steps_;
    bool byte_level_ = false;
};

// The fields of Metaspace, which pre-tokenizers and decoders share.
struct MetaspaceFields {
    std::string replacement;
    std::string prepend_scheme;  // "always", "first" or "never"
    bool split = true;
};
Result<MetaspaceFields> parse_metaspace(JsonReader& reader);

}  // namespace roll::tokenizer
