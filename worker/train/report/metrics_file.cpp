#include "worker/train/report/metrics_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/protocol/rank.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

constexpr std::size_t kWaitingMax = 64 << 20;

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, std::string_view content)
    : path_(path) {
    need(make_directories(path.parent_path()));
    need(write_file_atomically(path, content));
    file_ = io::Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_)
        throw RankFailure(protocol::kExitRefused, "cannot open " + path.string() + ": " +
                                                      std::generic_category().message(errno));
}

void MetricsFile::append(std::string_view bytes) {
    waiting_ += bytes;
    errno = ENOSPC;  // a short write usually means that the disk is full
    const ssize_t n = ::write(file_.get(), waiting_.data(), waiting_.size());
    const int number = errno;
    if (n > 0) waiting_.erase(0, static_cast<std::size_t>(n));
    const bool full = number == ENOSPC || number == EDQUOT;
    const bool refused = full || number == EROFS || number == EACCES;
    if (waiting_.empty() || (full && waiting_.size() < kWaitingMax)) return;
    throw RankFailure(
        refused ? protocol::kExitRefused : 1,
        "cannot write " + path_.string() + ": " + std::generic_category().message(number));
}

void MetricsFile::sync() {
    append({});
    ::fdatasync(file_.get());
}

}  // namespace roll::train
