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

// Sends `bytes`. Sends the descriptors `passed` (at most kPassedMax) together with the first byte.
// Returns the number of bytes sent, which may be less than the size of `bytes`. Returns -1 and sets
// errno if nothing was sent. Raises no SIGPIPE.
ssize_t send_with(const Descriptor& socket, std::string_view bytes, std::span<const int> passed);

// Reads the bytes and descriptors that have arrived. Appends the bytes to `bytes`, and the
// descriptors (close-on-exec) to `passed`. Returns the number of bytes read, or 0 at the end of the
// stream. Returns -1 and sets errno on failure.
ssize_t receive_with(int socket, std::string& bytes, std::vector<Descriptor>& passed);

}  // namespace roll::io
