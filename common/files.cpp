#include "common/files.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
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

namespace {

// Returns the file's status. Fails with InvalidArgument if the file is not a regular file.
Result<struct stat> regular_stat(int fd, const std::filesystem::path& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return fail_errno("cannot stat", path);
    if (!S_ISREG(info.st_mode))
        return fail(ErrorCode::InvalidArgument, path.string() + " is not a regular file");
    return info;
}

// Maximum size of a file that is read into memory. Without this limit, a device or a pipe that
// never ends would take all memory.
constexpr std::size_t kReadBytesMax = std::size_t{1} << 30;

tl::unexpected<Error> fail_too_large(const std::filesystem::path& path) {
    return fail(ErrorCode::InvalidArgument,
                path.string() + " has more than 1 GiB; allowed: at most 1 GiB");
}

Result<std::string> read_all(int fd, const std::filesystem::path& path) {
    std::string content;
    char buffer[1 << 16];
    for (;;) {
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("cannot read", path);
        if (n == 0) return content;
        if (content.size() >= kReadBytesMax) return fail_too_large(path);
        content.append(buffer, static_cast<std::size_t>(n));
    }
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno("cannot open", path);
    return read_all(file.get(), path);
}

Result<std::string> read_regular_file(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return fail_errno("cannot open", path);
    ROLL_TRY(const struct stat info, regular_stat(file.get(), path));
    if (static_cast<std::size_t>(info.st_size) > kReadBytesMax) return fail_too_large(path);
    return read_all(file.get(), path);
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content) {
    std::filesystem::path temporary = path;
    // Add a random number to the pid, because a process in another PID namespace may have the same
    // pid and write the same file.
    temporary +=
        "." + std::to_string(::getpid()) + "-" + std::to_string(std::random_device{}()) + ".tmp";
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
        return fail(ErrorCode::Refused, path.string() + " is accessible to other users",
                    "chmod 600 " + path.string());
    return content;
}

bool path_exists(const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
}

bool is_file(const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
}

// Creates the missing directories of a path. Tries the last directory first, because its parent
// usually exists.
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

namespace {

// All mapped files, for the SIGBUS handler. The handler can lock the mutex without a deadlock.
// SIGBUS is raised only by a read of a mapped page, and no thread reads a mapped page while it
// holds the mutex.
struct MappedFiles {
    struct Entry {
        std::size_t size = 0;
        std::filesystem::path path;
        dev_t device = 0;
        ino_t number = 0;
    };
    std::mutex mutex;
    std::map<const std::byte*, Entry> entries;  // maps the start address of a mapping to its file
    std::optional<Entry> failed;                // the first file that could not be read
};

MappedFiles& mapped_files() {
    static auto* const files = new MappedFiles;  // NOLINT: the handler may run at exit
    return *files;
}

// Replaces the page at `address` and all later pages of its mapped file by zeros. Returns false if
// no mapped file contains the address.
bool replace_failed_pages(const std::byte* address) {
    MappedFiles& files = mapped_files();
    const std::lock_guard lock(files.mutex);
    auto found = files.entries.upper_bound(address);
    if (found == files.entries.begin()) return false;
    const auto& [begin, entry] = *--found;
    const auto offset = static_cast<std::size_t>(address - begin);
    if (offset >= entry.size) return false;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t first = offset / page * page;
    void* const zeros = const_cast<std::byte*>(begin + first);  // NOLINT: mmap's type
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (::mmap(zeros, entry.size - first, PROT_READ, kFlags, -1, 0) == MAP_FAILED) return false;
    if (!files.failed) files.failed = entry;
    return true;
}

void on_failed_read(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const int number = errno;
    if (!replace_failed_pages(static_cast<const std::byte*>(info->si_addr)))
        // Restore the default action. The read is then repeated and raises SIGBUS again, which ends
        // the program.
        ::signal(SIGBUS, SIG_DFL);
    errno = number;
}

// Fails if the mapped file has shrunk. Succeeds if the file's name now belongs to another file,
// because the mapping keeps the old file.
Result<void> check_size(const MappedFiles::Entry& entry) {
    struct stat info {};
    if (::stat(entry.path.c_str(), &info) != 0 || info.st_ino != entry.number ||
        info.st_dev != entry.device || static_cast<std::size_t>(info.st_size) >= entry.size)
        return {};
    return fail(ErrorCode::Failed,
                entry.path.string() + " shrank from " + std::to_string(entry.size) + " to " +
                    std::to_string(info.st_size) + " bytes while it was read",
                "try again when no other program writes to that file");
}

}  // namespace

void survive_failed_reads() {
    static_cast<void>(mapped_files());
    struct sigaction action {};
    action.sa_sigaction = on_failed_read;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
}

Result<void> check_mapped_reads() {
    MappedFiles& files = mapped_files();
    const std::lock_guard lock(files.mutex);
    if (!files.failed) return {};
    ROLL_TRY_VOID(check_size(*files.failed));
    return fail(ErrorCode::Failed,
                "cannot read " + files.failed->path.string() +
                    ": its disk failed, or another program truncated the file while Roll read it");
}

Result<void> check_mapped_files() {
    ROLL_TRY_VOID(check_mapped_reads());
    MappedFiles& files = mapped_files();
    const std::lock_guard lock(files.mutex);
    for (const auto& [begin, entry] : files.entries) ROLL_TRY_VOID(check_size(entry));
    return {};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return fail_errno("cannot open", path);
    ROLL_TRY(const struct stat info, regular_stat(file.get(), path));
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) return MappedFile(std::span<const std::byte>{});
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return fail_errno("cannot map", path);
    const auto* const begin = static_cast<const std::byte*>(data);
    MappedFiles& files = mapped_files();
    const std::lock_guard lock(files.mutex);
    files.entries[begin] = {size, path, info.st_dev, info.st_ino};
    return MappedFile({begin, size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (bytes_.empty()) return;
    MappedFiles& files = mapped_files();
    const std::lock_guard lock(files.mutex);
    files.entries.erase(bytes_.data());
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // NOLINT: munmap's type
}

}  // namespace roll
