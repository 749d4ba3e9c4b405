#include "daemon/ledger/lock.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roll::ledger {
namespace {

std::filesystem::path file_of(const std::filesystem::path& directory) {
    return directory / "ledger.lock";
}

}  // namespace

bool is_locked(const std::filesystem::path& directory) {
    const auto lock = Lock::take(directory);
    return !lock && lock.error().code == ErrorCode::Refused;
}

std::string identity(const std::filesystem::path& directory) {
    struct stat info {};
    if (::stat(file_of(directory).c_str(), &info) != 0) return {};
    return std::to_string(info.st_ino);
}

Result<Lock> Lock::take(const std::filesystem::path& directory) {
    const auto path = file_of(directory);
    Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.fd_ < 0) {
        return fail(ErrorCode::Failed,
                    "cannot open " + path.string() + ": " + std::generic_category().message(errno));
    }
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
        return fail(
            ErrorCode::Refused, "another rolld serves " + directory.string(),
            "use that rolld, stop it with `rollctl down`, or start this rolld with another --dir");
    }
    return lock;
}

Lock::Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Lock& Lock::operator=(Lock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}
Lock::~Lock() {
    if (fd_ >= 0) ::close(fd_);
}

}  // namespace roll::ledger
