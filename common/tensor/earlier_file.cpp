#include "common/tensor/earlier_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roll::tensor {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 18U;

// Fills `into` with the bytes at `offset`. Returns false if the file ends earlier or cannot be
// read.
bool read_at(int fd, std::int64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
        const ssize_t n = ::pread(fd, into.data(), into.size(), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        offset += n;
        into = into.subspan(static_cast<std::size_t>(n));
    }
    return true;
}

// Calls look(offset, bytes) for each piece of [begin, end). Returns false at once if `look` returns
// false or a read fails.
template <class Look>
bool for_pieces(int fd, std::int64_t begin, std::int64_t end, Look look) {
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kPiece, end - begin)));
    for (std::int64_t at = begin; at < end; at += kPiece) {
        const auto piece =
            std::span(buffer).first(static_cast<std::size_t>(std::min(kPiece, end - at)));
        if (!read_at(fd, at, piece) || !look(at, std::span<const std::byte>(piece))) return false;
    }
    return true;
}

}  // namespace

std::unique_ptr<EarlierFile> EarlierFile::open(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    struct stat info {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        ::close(fd);
        return nullptr;
    }
    return std::unique_ptr<EarlierFile>(new EarlierFile(fd, info.st_size, path));
}

EarlierFile::~EarlierFile() { ::close(fd_); }

bool EarlierFile::is_same(std::int64_t offset, std::span<const std::byte> bytes) const {
    const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
    return end <= size_ && for_pieces(fd_, offset, end, [&](std::int64_t at, auto piece) {
               return std::memcmp(piece.data(), &bytes[static_cast<std::size_t>(at - offset)],
                                  piece.size()) == 0;
           });
}

bool EarlierFile::is_zero(std::int64_t begin, std::int64_t end) const {
    return for_pieces(fd_, begin, end, [](std::int64_t /*at*/, auto piece) {
        return std::all_of(piece.begin(), piece.end(),
                           [](std::byte one) { return one == std::byte{0}; });
    });
}

Result<bool> EarlierFile::holds(std::int64_t offset, std::span<const std::byte> bytes,
                                const std::function<Result<void>()>& differs, const Write& write) {
    if (differed_) return false;
    const bool same = is_same(offset, bytes);
    const std::lock_guard lock(mutex_);
    if (differed_) return false;
    if (same) {
        same_.push_back({offset, offset + static_cast<std::int64_t>(bytes.size())});
        return true;
    }
    ROLL_TRY_VOID(differs());
    ROLL_TRY_VOID(give(write));
    differed_ = true;
    return false;
}

Result<void> EarlierFile::give(const Write& write) const {
    for (const Range& range : same_) {
        Result<void> done;
        const bool read = for_pieces(fd_, range.begin, range.end, [&](std::int64_t at, auto piece) {
            done = write(at, piece);
            return done.has_value();
        });
        ROLL_TRY_VOID(std::move(done));
        if (!read) return fail(ErrorCode::Failed, "cannot read " + path_.string() + " again");
    }
    return {};
}

bool EarlierFile::become(const std::filesystem::path& path) {
    if (differed_) return false;
    std::sort(same_.begin(), same_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::int64_t at = 0;
    for (const Range& range : same_) {
        if (range.begin > at && !is_zero(at, range.begin)) return false;
        at = std::max(at, range.end);
    }
    return at == size_ && ::fsync(fd_) == 0 && ::link(path_.c_str(), path.c_str()) == 0;
}

}  // namespace roll::tensor
