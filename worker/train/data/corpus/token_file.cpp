#include "worker/train/data/corpus/token_file.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "worker/train/data/corpus/huge_pages.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

bool is_known(std::uint8_t code) {
    switch (static_cast<TokenType>(code)) {
        case TokenType::Uint8:
        case TokenType::Int16:
        case TokenType::Int32:
        case TokenType::Int64:
        case TokenType::Uint16: return true;
    }
    return false;
}

tl::unexpected<Error> corrupt(const fs::path& path, const std::string& what) {
    return fail(ErrorCode::Corrupt, path.string() + ": " + what);
}

}  // namespace

fs::path index_of(const fs::path& bin) {
    fs::path path = bin;
    return path.replace_extension(".idx");
}

Result<TokenFile> TokenFile::open_bytes(const fs::path& path) {
    ROLL_TRY(MappedFile data, MappedFile::open(path));
    TokenFile file(std::move(data), std::nullopt);
    file.tokens_ = {file.data_.bytes().data(), file.data_.bytes().size(), TokenType::Uint8};
    return file;
}

Result<TokenFile> TokenFile::open_indexed(const fs::path& bin) {
    ROLL_TRY(MappedFile data, MappedFile::open(bin));
    ROLL_TRY(MappedFile index, MappedFile::open(index_of(bin)));
    TokenFile file(std::move(data), std::move(index));
    ROLL_TRY_VOID(file.read_index(index_of(bin)));
    return file;
}

// Reads the .idx file. The file has a magic of 9 bytes, the version (u64), the element type (u8),
// the number of sequences S (u64) and the number of document starts D (u64); then S lengths (i32),
// S offsets (i64) and D document starts (i64).
Result<void> TokenFile::read_index(const fs::path& path) {
    const std::span<const std::byte> index = index_->bytes();
    if (index.size() < kIndexHeader || std::memcmp(index.data(), kIndexMagic, 9) != 0)
        return corrupt(path, "is not the index of a token file");
    if (load<std::uint64_t>(index, 9) != kIndexVersion)
        return corrupt(path, fmt::format("has version {}; supported: {}",
                                         load<std::uint64_t>(index, 9), kIndexVersion));
    const auto code = load<std::uint8_t>(index, 17);
    if (!is_known(code))
        return corrupt(path, fmt::format("has tokens of the unknown type code {}", code));
    const auto type = static_cast<TokenType>(code);
    element_ = size_of(type);
    const auto sequences = load<std::uint64_t>(index, 18), entries = load<std::uint64_t>(index, 26);
    const std::size_t room = index.size() - kIndexHeader;
    if (sequences > room / 12 || entries > room / 8 || 12 * sequences + 8 * entries > room)
        return corrupt(path,
                       fmt::format("is too short for {} and {}", counted(sequences, "sequence"),
                                   counted(entries, "document")));
    if (entries == 0)
        return corrupt(path, "has an empty list of document starts; expected: 1 entry or more");
    sequences_ = sequences;
    documents_ = entries - 1;
    const std::span<const std::byte> bytes = data_.bytes();
    if (bytes.size() % element_ != 0)
        return corrupt(path, fmt::format("has {0} bytes per token, but its .bin has {1} bytes, "
                                         "which is not a multiple of {0}",
                                         element_, bytes.size()));
    ROLL_TRY_VOID(check_sequences(path));
    ROLL_TRY_VOID(check_documents(path));
    tokens_ = {bytes.data(), bytes.size() / element_, type};
    return {};
}

std::int32_t TokenFile::sequence_length(std::size_t sequence) const {
    return load<std::int32_t>(index_->bytes(), kIndexHeader + 4 * sequence);
}

std::vector<std::int32_t> TokenFile::sequence_sizes(std::size_t begin, std::size_t end) const {
    if (!index_)
        return std::vector<std::int32_t>(end - begin, static_cast<std::int32_t>(tokens_.size()));
    auto sizes = zeros_on_huge_pages<std::int32_t>(end - begin);
    if (!sizes.empty())
        std::memcpy(sizes.data(), index_->bytes().data() + kIndexHeader + 4 * begin,
                    4 * sizes.size());
    return sizes;
}

std::int64_t TokenFile::sequence_offset(std::size_t sequence) const {
    return load<std::int64_t>(index_->bytes(), kIndexHeader + 4 * sequences_ + 8 * sequence);
}

// Checks that the sequences follow each other without gaps, from the first byte of the .bin to its
// last.
Result<void> TokenFile::check_sequences(const fs::path& path) const {
    const std::size_t size = data_.bytes().size();
    std::size_t end = 0;
    for (std::size_t i = 0; i < sequences_; ++i) {
        const std::int64_t offset = sequence_offset(i);
        if (offset < 0 || static_cast<std::size_t>(offset) != end)
            return corrupt(path, fmt::format("has sequence {} at byte {} of its .bin; expected: {}",
                                             i, offset, end));
        const std::int32_t length = sequence_length(i);
        if (length < 0 || static_cast<std::size_t>(length) * element_ > size - end)
            return corrupt(path, fmt::format("has sequence {} with {} at byte {}, but its "
                                             ".bin has {} bytes: one of the two files is truncated",
                                             i, counted(length, "token"), offset, size));
        end += static_cast<std::size_t>(length) * element_;
    }
    if (end != size)
        return corrupt(path, fmt::format("describes fewer tokens than its .bin of {} bytes has: "
                                         "one of the two files is truncated",
                                         size));
    return {};
}

// Checks that document starts ascend from sequence 0 to the number of sequences.
Result<void> TokenFile::check_documents(const fs::path& path) const {
    const std::size_t at = kIndexHeader + 12 * sequences_;
    std::uint64_t before = 0;
    for (std::size_t i = 0; i <= documents_; ++i) {
        const auto start = load<std::uint64_t>(index_->bytes(), at + 8 * i);
        const bool last = i == documents_;
        if (start < before || start > sequences_ || (i == 0 && start != 0) ||
            (last && start != sequences_))
            return corrupt(
                path,
                fmt::format("entry {} of its list of document starts is sequence {}; expected: {}",
                            i, start,
                            last     ? std::to_string(sequences_)
                            : i == 0 ? "0"
                                     : fmt::format("{} to {}", before, sequences_)));
        before = start;
    }
    return {};
}

Tokens TokenFile::sequence(std::size_t sequence) const {
    if (!index_) return tokens_;
    return tokens_.subspan(static_cast<std::size_t>(sequence_offset(sequence)) / element_,
                           static_cast<std::size_t>(sequence_length(sequence)));
}

// Returns the index of the document's first token. Returns the number of tokens if the document has
// no sequences.
std::size_t TokenFile::document_start(std::size_t document) const {
    const std::span<const std::byte> index = index_->bytes();
    const auto sequence = load<std::uint64_t>(index, kIndexHeader + 12 * sequences_ + 8 * document);
    if (sequence >= sequences_) return tokens_.size();
    return static_cast<std::size_t>(sequence_offset(sequence)) / element_;
}

Tokens TokenFile::document(std::size_t document) const {
    if (!index_) return tokens_;
    const std::size_t begin = document_start(document);
    const bool last = document + 1 >= documents_;
    return tokens_.subspan(begin, (last ? tokens_.size() : document_start(document + 1)) - begin);
}

std::vector<std::size_t> TokenFile::starts_within(std::size_t begin, std::size_t end) const {
    std::vector<std::size_t> starts;
    if (!index_) return starts;
    // Binary search for the first document that starts after `begin`
    std::size_t low = 0, high = documents_;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        document_start(middle) > begin ? high = middle : low = middle + 1;
    }
    for (std::size_t last = begin; low < documents_; ++low) {
        const std::size_t start = document_start(low);
        if (start >= end) break;
        if (start > last) starts.push_back(last = start);
    }
    return starts;
}

}  // namespace roll::data
