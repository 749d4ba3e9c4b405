#include "daemon/ledger/snapshot.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "daemon/ledger/state_bytes.hpp"

namespace roll::ledger {
namespace {

// Returns the header without SUM, "roll-snapshot LAYOUT SEQ HASH SIZE ", for a body of `size`
// bytes.
std::string head_of(const Mark& at, std::size_t size) {
    return fmt::format("roll-snapshot {:016x} {:020} {:016x} {:020} ", layout(), at.seq, at.hash,
                       size);
}

// Returns the header "roll-snapshot LAYOUT SEQ HASH SIZE SUM". SUM is the checksum of the header
// without SUM, and of the body.
std::string header_of(const Mark& at, std::string_view body) {
    const std::string head = head_of(at, body.size());
    return head + to_hex(hash64(body, hash64(head))) + "\n";
}
constexpr int kSnapshotNice = 10;
constexpr std::size_t kHeaderBytes = 14 + 17 + 21 + 17 + 21 + 17;

}  // namespace

Result<void> write_snapshot(const std::filesystem::path& path, const Mark& at,
                            const core::State& state) {
    std::size_t size = 0;
    write_bytes(state, [&](std::string_view piece) { size += piece.size(); });
    const std::string head = head_of(at, size);
    Hash64 sum(hash64(head));
    const std::string staged = path.string() + ".tmp";
    std::ofstream file(staged, std::ios::binary | std::ios::trunc);
    file << std::string(kHeaderBytes, ' ');
    write_bytes(state, [&](std::string_view piece) {
        sum.add(std::as_bytes(std::span(piece)));
        file << piece;
    });
    file.seekp(0);
    file << head << to_hex(sum.value()) << '\n';
    file.close();
    if (file && ::rename(staged.c_str(), path.c_str()) == 0) return {};
    ::unlink(staged.c_str());
    return fail(ErrorCode::Failed, "cannot write " + path.string());
}

Result<Snapshot> read_snapshot(const std::filesystem::path& path) {
    ROLL_TRY(const MappedFile file, MappedFile::open(path));
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
    const std::string header(bytes.substr(0, kHeaderBytes));
    const auto damaged = [&] {
        return fail(ErrorCode::Corrupt, path.string() + " was changed after it was written");
    };
    unsigned long long made_by = 0;
    long long seq = 0;
    unsigned long long hash = 0;
    if (header.size() < kHeaderBytes) return damaged();
    if (std::sscanf(header.c_str(), "roll-snapshot %16llx %20lld %16llx", &made_by, &seq, &hash) !=
        3)
        return damaged();
    if (made_by != layout())
        return fail(ErrorCode::Refused, path.string() + " was written by another release of rolld");
    const std::string_view body = bytes.substr(kHeaderBytes);
    Snapshot snapshot{{seq, hash}, {}};
    if (header_of(snapshot.at, body) != header) return damaged();
    ROLL_TRY(snapshot.state, state_from(body));
    return snapshot;
}

SnapshotWriter::SnapshotWriter(SnapshotWriter&& other) noexcept
    : child_(std::exchange(other.child_, -1)) {}
SnapshotWriter& SnapshotWriter::operator=(SnapshotWriter&& other) noexcept {
    std::swap(child_, other.child_);
    return *this;
}
SnapshotWriter::~SnapshotWriter() { stop(); }

// Starts the child that writes the snapshot. The child blocks all signals, closes the files that it
// inherits, such as the ledger's lock, and is killed if this process ends. The child runs at low
// priority: a late snapshot only makes the next start of rolld slower.
bool SnapshotWriter::start(const std::filesystem::path& path, const Mark& at,
                           const core::State& state) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) {
        ::close_range(3, ~0U, 0);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        ::setpriority(PRIO_PROCESS, 0, kSnapshotNice);
        ::_exit(write_snapshot(path, at, state) ? 0 : 1);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return child_ > 0;
}

bool SnapshotWriter::busy() {
    if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) != 0) child_ = -1;
    return child_ > 0;
}

void SnapshotWriter::stop() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {}
    child_ = -1;
}

}  // namespace roll::ledger
