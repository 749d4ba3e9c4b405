// Splits text into words, which the model then encodes one by one: the `pre_tokenizer` of a
// tokenizer file. Supports ByteLevel, Split, Digits, Metaspace, WhitespaceSplit and Sequence.
// Immutable; any thread may use it with its own scratch texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {

// Receives one word. The view is valid during the call only.
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

    // Returns whether the model's vocabulary spells bytes as visible characters. split() emits
    // words of plain bytes even then.
    bool byte_level() const { return byte_level_; }

    // Emits every word in order. `head` is the number of leading bytes of `text` that come from the
    // input's first character. It is 0 if `text` is not the start of the input.
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
    std::string prepend_scheme;  // one of always, first, never
    bool split = true;
};
Result<MetaspaceFields> parse_metaspace(JsonReader& reader);

}  // namespace roll::tokenizer
