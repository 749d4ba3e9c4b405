// Bytes and open descriptors from one process to another, over a Unix socket.
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

// Both ends of a stream, close-on-exec.
Result<std::pair<Descriptor, Descriptor>> make_socket_pair();

// As many of a message's descriptors as the kernel takes.
inline constexpr std::size_t kPassedMax = 250;

// How many of the bytes were sent; the descriptors, at most kPassedMax, go with the first of them.
// -1: none, and no descriptor (errno). Never raises SIGPIPE.
ssize_t send_with(const Descriptor& socket, std::string_view bytes, std::span<const int> passed);

// What has come, appended; descriptors are close-on-exec. Bytes read, 0 at the end, -1 (errno).
ssize_t receive_with(int socket, std::string& bytes, std::vector<Descriptor>& passed);

}  // namespace roll::io
