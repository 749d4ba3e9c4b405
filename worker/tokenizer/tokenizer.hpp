// Converts text to token ids and back, as a HuggingFace tokenizer.json specifies. The ids equal the
// ids of the tokenizers package. bytes() makes the byte tokenizer, in which each byte is a token.
// Supports neither chat templates nor pairs of texts.
//
// Immutable; any number of threads may encode and decode at the same time. Each invalid UTF-8
// sequence is treated as U+FFFD. Only the byte tokenizer keeps every byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/tokenizer/post_processor.hpp"

namespace roll::tokenizer {

struct EncodeOptions {
    bool add_special = true;  // true: adds the ids that the file's template puts around a text
};

class Tokenizer {
  public:
    // Reads a tokenizer.json. Fails with NotFound if the file does not exist, with Corrupt if it is
    // not JSON or a field has a wrong type, and with InvalidArgument if a part is unsupported. The
    // message names the file.
    static Result<Tokenizer> load(const std::filesystem::path& path);
    static Result<Tokenizer> parse(std::string_view json);
    static Tokenizer bytes();

    Tokenizer(Tokenizer&& other) noexcept;
    Tokenizer& operator=(Tokenizer&& other) noexcept;
    ~Tokenizer();

    std::vector<std::uint32_t> encode(std::string_view text, EncodeOptions options = {}) const;
    // Appends the text's ids to `ids`. Once the buffers are large enough, encoding allocates no
    // more memory.
    void encode(std::string_view text, std::vector<std::uint32_t>& ids,
                EncodeOptions options = {}) const;

    // Returns the text of the ids. Skips ids without a token and, with `skip_special`, special
    // tokens.
    std::string decode(std::span<const std::uint32_t> ids, bool skip_special = false) const;

    // Returns, for each id of a text, the byte position in the text at which its token ends.
    // Returns nullopt if the positions are unknown because the tokenizer is not byte-level or
    // changes the text.
    std::optional<std::vector<std::size_t>> ends_in(std::string_view text,
                                                    std::span<const std::uint32_t> ids) const;

    // Returns the largest id plus one, which is the number of rows that an embedding needs.
    std::uint32_t vocab_size() const;
    std::optional<std::uint32_t> id_of(std::string_view token) const;
    // Returns the ids of special tokens in ascending order.
    const std::vector<std::uint32_t>& special_ids() const;
    const Surroundings& surroundings() const;

  private:
    class Impl;
    explicit Tokenizer(std::unique_ptr<const Impl> impl);
    std::unique_ptr<const Impl> impl_;  // null for the byte tokenizer
};

}  // namespace roll::tokenizer
