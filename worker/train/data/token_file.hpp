// Tokens on disk, mapped: a text whose bytes are the tokens, or Megatron's indexed dataset, a .bin
// of tokens back to back with an .idx of sequences and documents beside it. Opening costs no
// reading of tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "worker/train/data/tokens.hpp"

namespace roll::data {

class TokenFile {
  public:
    // One document, the file's bytes. Errors name the path, as MappedFile's do.
    static Result<TokenFile> open_bytes(const std::filesystem::path& path);

    // `bin` and the .idx of the same name. Corrupt: sizes that contradict each other, an element
    // type that is no integer's.
    static Result<TokenFile> open_indexed(const std::filesystem::path& bin);

    Tokens tokens() const { return tokens_; }
    std::size_t documents() const { return documents_; }

    // Where documents begin after `begin` and before `end`, ascending; in tokens.
    std::vector<std::size_t> starts_within(std::size_t begin, std::size_t end) const;

  private:
    TokenFile(MappedFile data, std::optional<MappedFile> index)
        : data_(std::move(data)),
          index_(std::move(index)) {}
    Result<void> read_index(const std::filesystem::path& path);
    std::size_t document_start(std::size_t document) const;

    MappedFile data_;
    std::optional<MappedFile> index_;
    Tokens tokens_;
    std::size_t documents_ = 1;
    std::size_t sequences_ = 0;
    std::size_t element_ = 1;  // bytes of a token
};

// The .idx that belongs to a .bin.
std::filesystem::path index_of(const std::filesystem::path& bin);

// What an .idx begins with; the arrays that follow are not aligned.
constexpr char kIndexMagic[] = "MMIDIDX\0";  // and the literal's own zero: 9 bytes
constexpr std::size_t kIndexHeader = 34;
constexpr std::uint64_t kIndexVersion = 1;

}  // namespace roll::data
