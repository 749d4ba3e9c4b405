// An append-only file. Error messages name the path. If the disk is full, the error is
// ErrorCode::Refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/error.hpp"

namespace roll::data {

class AppendFile {
  public:
    AppendFile() = default;
    // Opens the file, or creates the file if it does not exist. Truncates the file to `size` bytes.
    // Fails with Corrupt if the file is shorter than `size`.
    static Result<AppendFile> open(const std::filesystem::path& path, std::uint64_t size);

    AppendFile(AppendFile&& other) noexcept;
    AppendFile& operator=(AppendFile&& other) noexcept;
    AppendFile(const AppendFile&) = delete;
    AppendFile& operator=(const AppendFile&) = delete;
    ~AppendFile();

    Result<void> append(std::string_view bytes);
    Result<void> sync();

  private:
    std::filesystem::path path_;
    int fd_ = -1;
};

}  // namespace roll::data
