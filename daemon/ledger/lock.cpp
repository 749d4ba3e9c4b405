#include "daemon/ledger/lock.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace roll::ledger {

Result<Lock> Lock::take(const std::filesystem::path& directory) {
    const auto path = directory / "ledger.lock";
    Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.fd_ < 0) {
        return fail(ErrorCode::Failed,
                    "cannot open " + path.string() + ": " + std::generic_category().message(errno));
    }
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
        return fail(ErrorCode::Refused, "another rolld serves " + directory.string(),
                    "use that one, end it with `rollctl down`, or give another --dir");
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
