#include "common/io/passing.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sys/socket.h>

namespace roll::io {

Result<std::pair<Descriptor, Descriptor>> make_socket_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return fail(ErrorCode::Failed,
                    "cannot create a socket: " + std::generic_category().message(errno));
    return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

ssize_t send_with(const Descriptor& socket, std::string_view bytes, std::span<const int> passed) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedMax * sizeof(int))> control{};
    iovec data{const_cast<char*>(bytes.data()), bytes.size()};  // NOLINT: sendmsg's type
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!passed.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(passed.size_bytes());
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(passed.size_bytes());
        std::memcpy(CMSG_DATA(head), passed.data(), passed.size_bytes());
    }
    ssize_t sent = 0;
    do sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t receive_with(int socket, std::string& bytes, std::vector<Descriptor>& passed) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedMax * sizeof(int))> control;
    std::array<char, 1 << 16> buffer;
    iovec data{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0) return n;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        std::vector<int> numbers(count);
        std::memcpy(numbers.data(), CMSG_DATA(head), count * sizeof(int));
        for (const int number : numbers) passed.emplace_back(number);
    }
    return n;
}

}  // namespace roll::io
