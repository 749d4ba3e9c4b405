#include "worker/train/metrics_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/protocol/rank.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {

MetricsFile::MetricsFile(const std::filesystem::path& path, std::string_view content)
    : path_(path) {
    need(make_directories(path.parent_path()));
    need(write_file_atomically(path, content));
    file_ = io::Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_) throw RankFailure(1, "cannot open " + path.string());
}

void MetricsFile::append(std::string_view bytes) {
    errno = ENOSPC;  // what a short write means
    if (::write(file_.get(), bytes.data(), bytes.size()) == std::ssize(bytes)) return;
    const int number = errno;
    const bool full = number == ENOSPC || number == EDQUOT;
    throw RankFailure(
        full ? protocol::kExitRefused : 1,
        "cannot write " + path_.string() + ": " + std::generic_category().message(number));
}

void MetricsFile::sync() { ::fdatasync(file_.get()); }

}  // namespace roll::train
