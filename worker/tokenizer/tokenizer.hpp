// Text to token ids and back, as a Hugging Face tokenizer.json says; ids equal those of the
// tokenizers package. Or `bytes`: a token is a byte. Knows no chat templates and no pairs of texts.
//
// Immutable; any number of threads may encode and decode at once. Text that is no UTF-8 is read as
// if each broken sequence were U+FFFD, except by `bytes`, which keeps every byte.
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

namespace roll::tokenizer {

struct EncodeOptions {
    bool add_special = true;  // what the file's template puts around a text: bos, eos
};

// What the file's template puts around a text.
struct Surroundings {
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};
};

class Tokenizer {
  public:
    // A tokenizer.json. Errors name the file: NotFound, Corrupt (not JSON, a field of the wrong
    // type), InvalidArgument (a part of it that is not built, by name).
    static Result<Tokenizer> load(const std::filesystem::path& path);
    static Result<Tokenizer> parse(std::string_view json);
    static Tokenizer bytes();

    Tokenizer(Tokenizer&& other) noexcept;
    Tokenizer& operator=(Tokenizer&& other) noexcept;
    ~Tokenizer();

    std::vector<std::uint32_t> encode(std::string_view text, EncodeOptions options = {}) const;
    // The same, appended to ids: no allocation once the buffers have grown.
    void encode(std::string_view text, std::vector<std::uint32_t>& ids,
                EncodeOptions options = {}) const;

    // Ids that no token has are left out. skip_special leaves out special tokens too.
    std::string decode(std::span<const std::uint32_t> ids, bool skip_special = false) const;

    // One more than the largest id: the rows that an embedding needs.
    std::uint32_t vocab_size() const;
    std::optional<std::uint32_t> id_of(std::string_view token) const;
    const std::vector<std::uint32_t>& special_ids() const;  // ascending
    Surroundings surroundings() const;

  private:
    class Impl;
    explicit Tokenizer(std::unique_ptr<const Impl> impl);
    std::unique_ptr<const Impl> impl_;  // null: bytes
};

}  // namespace roll::tokenizer
