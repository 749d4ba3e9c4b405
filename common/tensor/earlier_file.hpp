// A file of an earlier time, compared with what is about to be written: while all is the same there
// is nothing to write.
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

    // Null if it is no file that can be read.
    static std::unique_ptr<EarlierFile> open(const std::filesystem::path& path);
    EarlierFile(const EarlierFile&) = delete;
    EarlierFile& operator=(const EarlierFile&) = delete;
    ~EarlierFile();

    // True if these bytes, and all before them, are the file's. The first that are not are told
    // from: `differs` is called once, and what was the same so far goes to `write`.
    Result<bool> holds(std::int64_t offset, std::span<const std::byte> bytes,
                       const std::function<Result<void>()>& differs, const Write& write);

    // Everything that was the same.
    Result<void> give(const Write& write) const;

    // Makes the path a link to the file, synced, if that is all there is in it (what was never
    // written is zero). False: it is not, or the two are on different disks.
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
