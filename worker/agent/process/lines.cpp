#include "worker/agent/process/lines.hpp"

#include <array>
#include <cerrno>

#include <unistd.h>

namespace roll::agent {

bool LineReader::fill(int fd) {
    std::array<char, 1 << 14> bytes;
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    feed({bytes.data(), static_cast<std::size_t>(n)});
    return n > 0;
}

std::optional<std::string> LineReader::next() {
    for (;;) {
        const std::size_t end = buffer_.find('\n', searched_);
        if (end == std::string::npos) {
            searched_ = buffer_.size();
            if (searched_ <= bytes_max_) return std::nullopt;
            skipping_ = true;
            buffer_.clear();
            searched_ = 0;
            return std::nullopt;
        }
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        searched_ = 0;
        const bool whole = !skipping_ && line.size() <= bytes_max_;
        skipping_ = false;
        if (whole) return line;
    }
}

}  // namespace roll::agent
