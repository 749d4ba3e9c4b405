#include "worker/train/data/corpus/file_lock.hpp"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace roll::data {
namespace {

constexpr std::chrono::milliseconds kAgain(50);

}  // namespace

Result<std::optional<FileLock>> FileLock::take(const std::filesystem::path& path,
                                               const std::function<bool(int)>& goes_on) {
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (lock.fd_ < 0)
        return fail(ErrorCode::Refused, "cannot create " + path.string() + ": " +
                                            std::generic_category().message(errno));
    for (int tries = 0; ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail(ErrorCode::Failed, "cannot lock " + path.string() + ": " +
                                               std::generic_category().message(errno));
        if (!goes_on(tries)) return std::optional<FileLock>();
        std::this_thread::sleep_for(kAgain);
    }
    return std::optional<FileLock>(std::move(lock));
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
    if (fd_ >= 0) ::close(fd_);
}

}  // namespace roll::data
