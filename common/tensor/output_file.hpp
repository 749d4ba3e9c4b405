// A file written piece by piece at known places, in any order. Callers stage and rename.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "common/error.hpp"

namespace roll::tensor {

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Moves, does not copy. Closed without a sync if finish() was not called. A full disk is Refused.
class OutputFile {
  public:
    // Creates or truncates.
    static Result<OutputFile> create(const std::filesystem::path& path);
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    Result<void> write_at(std::int64_t offset, std::span<const std::byte> bytes);
    Result<void> finish();  // fsync and close

  private:
    OutputFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
    tl::unexpected<Error> fail_errno(const char* what) const;
    int fd_ = -1;
    std::filesystem::path path_;
};

}  // namespace roll::tensor
