// Sends bytes and open file descriptors from one process to another over a Unix socket.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::io {

// Returns the two ends of a stream socket, both close-on-exec.
Result<std::pair<Descriptor, Descriptor>> make_socket_pair();

// The maximum number of descriptors per message; the kernel's limit is 253.
inline constexpr std::size_t kPassedMax = 250;

// Sends `bytes`, and the descriptors `passed` (at most kPassedMax) with the first byte. Returns the
// number of bytes sent, which may be fewer than given, or -1 with errno if nothing was sent. Raises
// no SIGPIPE.
ssize_t send_with(const Descriptor& socket, std::string_view bytes, std::span<const int> passed);

// Reads what has arrived: appends the bytes to `bytes` and the descriptors (close-on-exec) to
// `passed`. Returns the number of bytes read, 0 at the end of the stream, -1 with errno on failure.
ssize_t receive_with(int socket, std::string& bytes, std::vector<Descriptor>& passed);

}  // namespace roll::io
