#include "worker/train/model/disk_file.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "worker/plan/size_text.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_offload(const Offloaded& offloaded, const std::string& sentence) {
    throw RankFailure(status_of(ErrorCode::Refused), std::string(offloaded.key) + ": " + sentence);
}

// Opens a file without a name. If the file system does not support O_TMPFILE, the file has a name
// until ::unlink() returns.
int open_unnamed(const fs::path& folder) {
    const int opened = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (opened >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return opened;
    std::string name = folder / "roll-state-XXXXXX";
    const int made = ::mkostemp(name.data(), O_CLOEXEC);
    if (made >= 0) ::unlink(name.c_str());
    return made;
}

}  // namespace

void check_is_on_disk(const fs::path& folder, const Offloaded& offloaded) {
    struct statfs found {};
    if (::statfs(folder.c_str(), &found) != 0)
        refuse_offload(offloaded, "cannot use the folder " + folder.string() + ": " +
                                      std::strerror(errno) +
                                      "; set the job's output to a folder on a disk");
    const auto type = static_cast<unsigned long>(found.f_type);
    if (type == TMPFS_MAGIC || type == RAMFS_MAGIC)
        refuse_offload(offloaded,
                       "the folder " + folder.string() +
                           " is a tmpfs, which keeps its files in memory, so the " +
                           offloaded.what +
                           " would need as much memory as without the key; set TMPDIR of "
                           "roll-worker, or the job's output, to a folder on a disk");
}

DiskFile::DiskFile(fs::path folder, const Offloaded& offloaded)
    : folder_(std::move(folder)),
      offloaded_(offloaded),
      descriptor_(open_unnamed(folder_)) {
    if (descriptor_ >= 0) return;
    const int error = errno;
    refuse_offload(offloaded_, "cannot make a file in " + folder_.string() + ": " +
                                   std::strerror(error) +
                                   "; set TMPDIR of roll-worker to a folder to which it can "
                                   "write, or set the key to none");
}

DiskFile::~DiskFile() { ::close(descriptor_); }

void DiskFile::grow(std::int64_t bytes) {
    // Reserve the space now. If a page found no space later, the write would fail or, in a mapped
    // file, the kernel would kill the process.
    int reserved = EINTR;
    while (reserved == EINTR) reserved = ::posix_fallocate(descriptor_, bytes_, bytes);
    if (reserved != 0) {
        // A part of the space may be reserved. Free it, so that the message reports the right free
        // space.
        static_cast<void>(::ftruncate(descriptor_, bytes_) == 0);
        refuse(bytes, reserved);
    }
    bytes_ += bytes;
}

void DiskFile::refuse(std::int64_t bytes, int error) const {
    std::error_code ignored;
    const auto space = fs::space(folder_, ignored);
    refuse_offload(offloaded_,
                   "cannot keep " + plan::bytes_text(bytes) + " of " + offloaded_.what + " in " +
                       folder_.string() + ", where " +
                       plan::bytes_text(static_cast<std::int64_t>(space.available)) +
                       " are free: " + std::strerror(error) +
                       "; free space there, set TMPDIR of roll-worker to a folder with more "
                       "space, or set the key to none");
}

void DiskFile::refuse_to_read(std::int64_t bytes, int error) const {
    refuse_offload(offloaded_, "cannot read " + plan::bytes_text(bytes) + " of " + offloaded_.what +
                                   " back from " + folder_.string() + ": " + std::strerror(error) +
                                   "; the disk may be damaged: set TMPDIR of roll-worker to a "
                                   "folder on another disk, or set the key to none");
}

}  // namespace roll::train
