// Memory-mapped token files. A token file is either a text whose bytes are the tokens, or
// Megatron's indexed dataset: a .bin of consecutive tokens with an .idx of sequences and documents.
// Opening a file does not read its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {

class TokenFile {
  public:
    // Opens a file as one document of byte tokens. Fails as MappedFile does. Error messages name
    // the path.
    static Result<TokenFile> open_bytes(const std::filesystem::path& path);

    // Opens `bin` and the .idx file of the same name, and reads the .idx once. Fails with Corrupt
    // if the two files do not match, if the sequences do not follow each other in the .bin, if a
    // document does not begin at a sequence, or if the element type is not an integer.
    static Result<TokenFile> open_indexed(const std::filesystem::path& bin);

    Tokens tokens() const { return tokens_; }
    std::size_t documents() const { return documents_; }

    // Returns the tokens of a document. Requires document < documents().
    Tokens document(std::size_t document) const;

    // A sequence is the unit of the .idx. A document consists of whole sequences. A file of bytes
    // has one sequence. Requires sequence < sequences().
    std::size_t sequences() const { return sequences_; }
    Tokens sequence(std::size_t sequence) const;
    // Returns the number of tokens of a sequence; faster than sequence().
    std::size_t sequence_size(std::size_t sequence) const {
        return index_ ? static_cast<std::size_t>(sequence_length(sequence)) : tokens_.size();
    }
    // Returns the sizes of the sequences [begin, end). Each must be at most 2^31 - 1.
    std::vector<std::int32_t> sequence_sizes(std::size_t begin, std::size_t end) const;

    // Returns the token indices in (begin, end) at which documents start, ascending.
    std::vector<std::size_t> starts_within(std::size_t begin, std::size_t end) const;

  private:
    TokenFile(MappedFile data, std::optional<MappedFile> index)
        : data_(std::move(data)),
          index_(std::move(index)) {}
    Result<void> read_index(const std::filesystem::path& path);
    Result<void> check_sequences(const std::filesystem::path& path) const;
    Result<void> check_documents(const std::filesystem::path& path) const;
    std::int32_t sequence_length(std::size_t sequence) const;
    std::int64_t sequence_offset(std::size_t sequence) const;
    std::size_t document_start(std::size_t document) const;

    MappedFile data_;
    std::optional<MappedFile> index_;
    Tokens tokens_;
    std::size_t documents_ = 1;
    std::size_t sequences_ = 1;
    std::size_t element_ = 1;  // number of bytes per token
};

// Returns the path of the .idx file that belongs to a .bin file.
std::filesystem::path index_of(const std::filesystem::path& bin);

// The first 9 bytes of an .idx file; the literal's terminator is the ninth. The arrays after the
// header are not aligned.
constexpr char kIndexMagic[] = "MMIDIDX\0";
constexpr std::size_t kIndexHeader = 34;
constexpr std::uint64_t kIndexVersion = 1;

}  // namespace roll::data
