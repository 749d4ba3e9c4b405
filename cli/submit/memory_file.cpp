#include "cli/submit/memory_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace roll::cli {

Result<std::string> in_memory(const std::string& content) {
    const int fd = ::memfd_create("roll-plan", 0);
    const auto failed = [] {
        return fail(ErrorCode::Failed, "cannot write a temporary file in memory: " +
                                           std::generic_category().message(errno));
    };
    if (fd < 0) return failed();
    std::size_t written = 0;
    while (written < content.size()) {
        const ssize_t n = ::write(fd, content.data() + written, content.size() - written);
        if (n <= 0) return failed();
        written += static_cast<std::size_t>(n);
    }
    ::lseek(fd, 0, SEEK_SET);
    return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace roll::cli
