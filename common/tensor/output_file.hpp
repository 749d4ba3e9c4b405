// Writes a file in pieces at given offsets, in any order. Callers write under a temporary name and
// then rename the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include <tl/expected.hpp>

#include "common/error.hpp"

namespace roll::tensor {

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

class EarlierFile;

// An output file. Movable, not copyable. The destructor closes the file without fsync. Writing to a
// full disk fails with Refused.
class OutputFile {
  public:
    // Creates or truncates the file. If all content equals the content of the file `earlier`,
    // nothing is written, and finish() makes `path` a hard link to `earlier`.
    static Result<OutputFile> create(const std::filesystem::path& path,
                                     const std::filesystem::path& earlier = {});
    // Creates the file, or opens it without changing the content. Several processes can thus each
    // write a part of one file.
    static Result<OutputFile> open_shared(const std::filesystem::path& path);
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    // Lets write_at() write aligned bytes to the disk without a copy in the page cache. This takes
    // less processor time. Bytes are aligned if their offset, address and number are multiples of
    // 4096. Has no effect if the file system does not support writes without the page cache.
    void bypass_cache();

    // Writes `bytes` at `offset`. Thread-safe.
    Result<void> write_at(std::int64_t offset, std::span<const std::byte> bytes);
    Result<void> finish();  // fsyncs and closes the file

  private:
    OutputFile(int fd, std::filesystem::path path);
    tl::unexpected<Error> fail_errno(const char* what) const;
    Result<void> open(int flags);
    Result<void> write_out(std::int64_t offset, std::span<const std::byte> bytes);
    bool write_direct(std::int64_t offset, std::span<const std::byte> bytes) const;
    int fd_ = -1;
    int direct_fd_ = -1;  // the same file, opened to bypass the page cache; -1: not opened
    std::filesystem::path path_;
    std::unique_ptr<EarlierFile> earlier_;  // the file `earlier` of create(); may be null
};

}  // namespace roll::tensor
