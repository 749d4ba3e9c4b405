// The high-water mark: the newest (seq, hash) of the chain, in a file of its own.
//
// Two 64-byte slots written in turn, each with a checksum: a crash in mid-write leaves the other
// readable.
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

    // The newer of the two slots that read well; none in a new file.
    std::optional<Mark> read() const;

    // A mark that cannot be written is no reason to stop: it only tells less. False then.
    bool write(const Mark& mark);

  private:
    explicit MarkFile(int fd) : fd_(fd) {}
    int fd_ = -1;
};

}  // namespace roll::ledger
