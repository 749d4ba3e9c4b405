// A lock between processes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "common/error.hpp"

namespace roll::data {

// A file lock. The lock is held until this object is destroyed or the process ends.
class FileLock {
  public:
    // Waits for the lock. Each time that the lock is still held by another process, calls `goes_on`
    // with the number of failed attempts before this one. Returns nullopt if `goes_on` returned
    // false.
    static Result<std::optional<FileLock>> take(const std::filesystem::path& path,
                                                const std::function<bool(int)>& goes_on);
    FileLock(FileLock&& other) noexcept;
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock();

  private:
    explicit FileLock(int fd) : fd_(fd) {}
    int fd_;
};

}  // namespace roll::data
