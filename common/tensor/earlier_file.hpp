// Compares the new content of a file with an existing (earlier) file. New content is written only
// after the first difference is found. If there is no difference, the new file becomes a hard link
// to the earlier file.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/error.hpp"

namespace roll::tensor {

class EarlierFile {
  public:
    using Write = std::function<Result<void>(std::int64_t offset, std::span<const std::byte>)>;

    // Opens the file. Returns null if the path does not name a readable regular file.
    static std::unique_ptr<EarlierFile> open(const std::filesystem::path& path);
    EarlierFile(const EarlierFile&) = delete;
    EarlierFile& operator=(const EarlierFile&) = delete;
    ~EarlierFile();

    // Compares `bytes` with the file at `offset`. Returns true if `bytes` equals these bytes of the
    // file and all earlier calls returned true. On the first difference, calls `differs` once. Then
    // passes all bytes that were equal so far to `write`.
    Result<bool> holds(std::int64_t offset, std::span<const std::byte> bytes,
                       const std::function<Result<void>()>& differs, const Write& write);

    // Passes all bytes that were equal so far to `write`.
    Result<void> give(const Write& write) const;

    // Makes `path` a hard link to the file and fsyncs it. Returns false if a comparison found a
    // difference, or if linking fails. Also returns false if a part of the file was not compared,
    // except for gaps that contain only zeros and are followed by a compared part.
    bool become(const std::filesystem::path& path);

  private:
    struct Range {
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };
    EarlierFile(int fd, std::int64_t size, std::filesystem::path path)
        : fd_(fd),
          size_(size),
          path_(std::move(path)) {}
    bool is_same(std::int64_t offset, std::span<const std::byte> bytes) const;
    bool is_zero(std::int64_t begin, std::int64_t end) const;

    int fd_;
    std::int64_t size_;
    std::filesystem::path path_;
    std::mutex mutex_;
    std::atomic<bool> differed_ = false;
    std::vector<Range> same_;
};

}  // namespace roll::tensor
