#include "daemon/ledger/mark.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/hash.hpp"

namespace roll::ledger {
namespace {

constexpr std::size_t kSlotBytes = 64;

// Returns the text of a slot: "roll-mark SEQ HASH " with leading zeros, then its checksum in hex.
std::string encode(const Mark& mark) {
    const std::string head = fmt::format("roll-mark {:020} {:016x} ", mark.seq, mark.hash);
    return head + to_hex(hash64(head)).substr(0, kSlotBytes - 1 - head.size()) + "\n";
}

std::optional<Mark> decode(const std::string& slot) {
    Mark mark;
    unsigned long long hash = 0;
    long long seq = 0;
    if (std::sscanf(slot.c_str(), "roll-mark %20lld %16llx ", &seq, &hash) != 2)
        return std::nullopt;
    mark.seq = seq;
    mark.hash = hash;
    if (encode(mark) != slot) return std::nullopt;
    return mark;
}

}  // namespace

Result<MarkFile> MarkFile::open(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(ErrorCode::Failed,
                    "cannot open " + path.string() + ": " + std::generic_category().message(errno));
    }
    return MarkFile(fd);
}

MarkFile::MarkFile(MarkFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
MarkFile& MarkFile::operator=(MarkFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}
MarkFile::~MarkFile() {
    if (fd_ >= 0) ::close(fd_);
}

std::optional<Mark> MarkFile::read() const {
    std::optional<Mark> newest;
    for (const off_t slot : {0, 1}) {
        std::string bytes(kSlotBytes, '\0');
        const off_t at = slot * static_cast<off_t>(kSlotBytes);
        if (::pread(fd_, bytes.data(), kSlotBytes, at) != static_cast<ssize_t>(kSlotBytes))
            continue;
        const auto mark = decode(bytes);
        if (mark && (!newest || newest->seq < mark->seq)) newest = mark;
    }
    return newest;
}

bool MarkFile::write(const Mark& mark) {
    static_assert(sizeof("roll-mark ") - 1 + 20 + 1 + 16 + 1 < kSlotBytes);
    const std::string bytes = encode(mark);
    const auto at = static_cast<off_t>(kSlotBytes) * (mark.seq % 2);
    return ::pwrite(fd_, bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size());
}

}  // namespace roll::ledger
