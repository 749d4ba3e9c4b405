#include "common/files.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace roll {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

tl::unexpected<Error> fail_errno(const std::string& what, const std::filesystem::path& path) {
    const int number = errno;
    ErrorCode code = ErrorCode::Failed;
    if (number == ENOENT) code = ErrorCode::NotFound;
    if (number == ENOSPC || number == EDQUOT || number == EACCES || number == EPERM ||
        number == EROFS || number == EEXIST)
        code = ErrorCode::Refused;
    return fail(code, what + " " + path.string() + ": " + std::generic_category().message(number));
}

Result<void> write_all(int fd, std::string_view content, const std::filesystem::path& path) {
    while (!content.empty()) {
        const ssize_t n = ::write(fd, content.data(), content.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("cannot write", path);
        content.remove_prefix(static_cast<std::size_t>(n));
    }
    if (::fsync(fd) != 0) return fail_errno("cannot sync", path);
    return {};
}

Result<void> write_temporary(const std::filesystem::path& path, std::string_view content) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) return fail_errno("cannot create", path);
    return write_all(file.get(), content, path);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno("cannot open", path);
    std::string content;
    char buffer[1 << 16];
    for (;;) {
        const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("cannot read", path);
        if (n == 0) return content;
        content.append(buffer, static_cast<std::size_t>(n));
    }
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content) {
    std::filesystem::path temporary = path;
    temporary += "." + std::to_string(::getpid()) + ".tmp";  // others may write it just now
    if (const auto written = write_temporary(temporary, content); !written) {
        ::unlink(temporary.c_str());
        return written;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const auto error = fail_errno("cannot rename to", path);
        ::unlink(temporary.c_str());
        return error;
    }
    return fsync_directory(path.parent_path());
}

Result<void> write_private_file(const std::filesystem::path& path, std::string_view content) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    const Descriptor file(::open(path.c_str(), kFlags, 0600));
    if (file.get() < 0) return fail_errno("cannot create", path);
    auto written = write_all(file.get(), content, path);
    if (!written) ::unlink(path.c_str());
    return written;
}

Result<std::string> read_private_file(const std::filesystem::path& path) {
    ROLL_TRY(std::string content, read_file(path));
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || (info.st_mode & 077) != 0)
        return fail(ErrorCode::Refused, path.string() + " is open to others",
                    "chmod 600 " + path.string());
    return content;
}

// From its end: mostly all but the last one or two are there.
Result<void> make_directories(const std::filesystem::path& path) {
    if (path.empty() || ::mkdir(path.c_str(), 0777) == 0) return {};
    if (errno == ENOENT && path.has_relative_path()) {
        ROLL_TRY_VOID(make_directories(path.parent_path()));
        if (::mkdir(path.c_str(), 0777) == 0) return {};
    }
    const int number = errno;
    std::error_code error;
    if (number == EEXIST && std::filesystem::is_directory(path, error)) return {};
    errno = number == EEXIST ? ENOTDIR : number;
    return fail_errno("cannot create directory", path);
}

Result<void> fsync_directory(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.empty() ? "." : path;
    const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0) return fail_errno("cannot open directory", folder);
    if (::fsync(directory.get()) != 0) return fail_errno("cannot sync directory", folder);
    return {};
}

Result<void> rename_new(const std::filesystem::path& from, const std::filesystem::path& to) {
    const long done =
        ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    if (done != 0) return fail_errno("cannot rename to", to);
    return fsync_directory(to.parent_path());
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno("cannot open", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return fail_errno("cannot stat", path);
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) return MappedFile(std::span<const std::byte>{});
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return fail_errno("cannot map", path);
    return MappedFile({static_cast<const std::byte*>(data), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty())
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // NOLINT: munmap's type
}

}  // namespace roll
