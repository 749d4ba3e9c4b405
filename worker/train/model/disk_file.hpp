// Files without names, for data that a rank on a CPU keeps outside its memory.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roll::train {

// Describes the data that is kept in a file, for messages to the user.
struct Offloaded {
    const char* key;   // the key of the job, such as train.optimizer.offload
    const char* what;  // name of the data, such as "optimizer state"
};

// Throws RankFailure(refused) if the file system of `folder` keeps its files in memory.
void check_is_on_disk(const std::filesystem::path& folder, const Offloaded& offloaded);

// A file without a name. It disappears when the process ends. Its disk space is reserved.
class DiskFile {
  public:
    // Makes an empty file on the file system of `folder`. Throws RankFailure(refused).
    DiskFile(std::filesystem::path folder, const Offloaded& offloaded);
    ~DiskFile();
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;

    // Adds bytes to the end of the file. Throws RankFailure(refused) if there is no space.
    void grow(std::int64_t bytes);

    // Throw RankFailure(refused), because the file cannot hold `bytes` more bytes, or because
    // `bytes` bytes of the file cannot be read. `error`: the value of errno.
    [[noreturn]] void refuse(std::int64_t bytes, int error) const;
    [[noreturn]] void refuse_to_read(std::int64_t bytes, int error) const;

    int descriptor() const { return descriptor_; }
    std::int64_t bytes() const { return bytes_; }

  private:
    std::filesystem::path folder_;
    Offloaded offloaded_;
    int descriptor_ = -1;
    std::int64_t bytes_ = 0;
};

}  // namespace roll::train
