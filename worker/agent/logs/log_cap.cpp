#include "worker/agent/logs/log_cap.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/descriptor.hpp"

namespace roll::agent {

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

}  // namespace roll::agent
