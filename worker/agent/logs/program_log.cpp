#include "worker/agent/logs/program_log.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/descriptor.hpp"
#include "common/io/process.hpp"
#include "common/pattern.hpp"

namespace roll::agent {
namespace {

// number of bytes of one read, equal to the capacity of a pipe
constexpr std::size_t kAtOnceBytes = 64 << 10;

io::Descriptor open_to_append(const std::string& file) {
    return io::Descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

tl::unexpected<Error> refuse(const char* what, const std::string& file) {
    const int number = errno;
    ErrorCode code = ErrorCode::Refused;
    if (number == ENOTDIR || number == EISDIR || number == ENAMETOOLONG)
        code = ErrorCode::InvalidArgument;
    if (number == EIO || number == ESTALE || number == ENOTCONN) code = ErrorCode::Unavailable;
    return fail(code, std::string("cannot ") + what + " log " + file + ": " +
                          std::generic_category().message(number));
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

constexpr std::streamoff kTailBytes = 4 << 20;
constexpr std::size_t kLineBytesMax = 4096;

std::string tail_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    if (!in) return {};
    const std::streamoff size = in.tellg();
    const std::streamoff from = std::max<std::streamoff>(size - kTailBytes, 0);
    std::string text(static_cast<std::size_t>(size - from), '\0');
    in.seekg(from);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

}  // namespace

// The log is opened in append mode, so the program's next output follows the remaining
// bytes.
bool cap_log(const std::string& file, std::int64_t bytes_max) {
    struct stat info {};
    if (bytes_max <= 0 || ::stat(file.c_str(), &info) != 0 || info.st_size <= bytes_max)
        return false;
    const io::Descriptor log(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    if (!log) return false;
    const std::int64_t block = info.st_blksize > 0 ? info.st_blksize : 4096;
    const std::int64_t head = (info.st_size - bytes_max / 2) / block * block;
    if (head > 0 && ::fallocate(log.get(), FALLOC_FL_COLLAPSE_RANGE, 0, head) == 0) return true;
    return ::ftruncate(log.get(), 0) == 0;
}

Result<io::Descriptor> open_log(const std::string& file) {
    io::Descriptor log = open_to_append(file);
    if (!log && errno == ENOENT) {
        ROLL_TRY_VOID(make_directories(std::filesystem::path(file).parent_path()));
        log = open_to_append(file);
    }
    if (!log) return refuse("open", file);
    return log;
}

Result<void> check_log(const std::string& file) {
    std::error_code error;
    if (!std::filesystem::is_fifo(file, error)) ROLL_TRY_VOID(open_log(file));
    return {};
}

Result<void> link_log(const std::string& link, const std::string& log) {
    ROLL_TRY_VOID(make_directories(std::filesystem::path(link).parent_path()));
    if (::symlink(log.c_str(), link.c_str()) != 0 && errno != EEXIST) return refuse("link", link);
    return {};
}

void add_to_log(const std::string& file, const std::string& text) {
    const auto log = open_log(file);
    if (log) write_all(log->get(), "roll-worker: " + text + "\n");
}

Result<std::unique_ptr<LogPipe>> LogPipe::make(std::string file, std::int64_t bytes_max) {
    ROLL_TRY(io::Pipe pipe, io::make_pipe());
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    return std::unique_ptr<LogPipe>(
        new LogPipe(std::move(file), bytes_max, std::move(pipe.read), std::move(pipe.write)));
}

void LogPipe::begin(short revents) {
    waited_ = -1;
    if ((revents & POLLIN) == 0) return;  // every writer has closed the pipe without output
    over_ = io::Descriptor(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { copied_ = copy(); });
}

// Waits for the copying thread. If there is none, copies what is left in the
// pipe.
Result<void> LogPipe::finish() {
    if (thread_.joinable()) {
        ::eventfd_write(over_.get(), 1);
        thread_.join();
    } else if (output_) {
        pollfd polled{output_.get(), POLLIN, 0};
        over_ = io::Descriptor();
        if (::poll(&polled, 1, 0) > 0 && (polled.revents & POLLIN) != 0) copied_ = copy();
    }
    output_.reset();
    return copied_;
}

Result<void> LogPipe::copy() {
    const auto log = open_log(file_);
    auto copied = log ? copy_into(*log) : Result<void>(tl::unexpected(log.error()));
    output_.reset();
    return copied;
}

// Copies until every writer has closed the pipe. Once the attempt has ended, does not wait for
// processes that still hold the pipe.
Result<void> LogPipe::copy_into(const io::Descriptor& log) {
    std::array<char, kAtOnceBytes> bytes;
    std::int64_t unseen = 0;  // number of bytes copied since the last check of the log's size
    for (bool over = !over_;;) {
        const ssize_t n = ::read(output_.get(), bytes.data(), bytes.size());
        if (n == 0 || (n < 0 && errno == EAGAIN && over)) {
            cap_log(file_, bytes_max_);
            return {};
        }
        if (n > 0 && !write_all(log.get(), {bytes.data(), static_cast<std::size_t>(n)}))
            return refuse("write", file_);
        if (n > 0 && (unseen += n) >= bytes_max_ / 4) {
            cap_log(file_, bytes_max_);
            unseen = 0;
        }
        if (n > 0) continue;
        std::array<pollfd, 2> polled{pollfd{output_.get(), POLLIN, 0},
                                     pollfd{over_.get(), POLLIN, 0}};
        ::poll(polled.data(), over ? 1 : 2, -1);
        over |= polled[1].revents != 0;
    }
}

std::vector<int> scan_logs(const std::vector<std::string>& patterns,
                           const std::vector<std::string>& files) {
    std::set<int> found;
    for (const std::string& file : files) {
        const std::string text = tail_of(file);
        for (int i = 0; i < static_cast<int>(patterns.size()); ++i) {
            const auto pattern = Pattern::make(patterns[static_cast<std::size_t>(i)]);
            if (!pattern || found.contains(i)) continue;
            for (std::size_t from = 0; from < text.size() && !found.contains(i);) {
                const std::size_t end = std::min(text.find('\n', from), text.size());
                const std::string_view line(text.data() + from,
                                            std::min(end - from, kLineBytesMax));
                if (pattern->occurs_in(line)) found.insert(i);
                from = end + 1;
            }
        }
    }
    return {found.begin(), found.end()};
}

}  // namespace roll::agent
