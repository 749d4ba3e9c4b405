// The mark: the newest (seq, hash) of the ledger's hash chain, in its own file.
//
// The file has two 64-byte slots with checksums. The slots are written alternately. A crash during
// a write leaves the other slot readable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "common/error.hpp"

namespace roll::ledger {

struct Mark {
    std::int64_t seq = 0;
    std::uint64_t hash = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
};

class MarkFile {
  public:
    static Result<MarkFile> open(const std::filesystem::path& path);
    MarkFile(MarkFile&& other) noexcept;
    MarkFile& operator=(MarkFile&& other) noexcept;
    MarkFile(const MarkFile&) = delete;
    MarkFile& operator=(const MarkFile&) = delete;
    ~MarkFile();

    // Returns the newer of the valid slots; nullopt if no slot is valid.
    std::optional<Mark> read() const;

    // Writes the mark; returns false on failure. A failure is not fatal: an older mark is still
    // correct, but protects fewer rows.
    bool write(const Mark& mark);

  private:
    explicit MarkFile(int fd) : fd_(fd) {}
    int fd_ = -1;
};

}  // namespace roll::ledger
