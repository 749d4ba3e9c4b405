#include "common/io/process_label.hpp"

#include <array>

#include <fmt/format.h>
#include <unistd.h>

namespace roll::io {

std::string process_label(pid_t pid) {
    std::array<char, 256> host{};
    const bool known = ::gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0';
    return fmt::format("host {}, process {}", known ? host.data() : "localhost", pid);
}

}  // namespace roll::io
