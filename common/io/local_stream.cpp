#include "common/io/local_stream.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/protocol/client.hpp"

namespace roll::io {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr timeval kSendPatience{10, 0};  // maximum time to wait for a rolld that does not read

}  // namespace

Result<std::optional<std::string>> FrameReader::next() {
    const std::size_t left = bytes_.size() - begin_;
    std::size_t size = 0;
    for (std::size_t i = 0; i < kLengthBytes && left >= kLengthBytes; ++i)
        size |= std::size_t{static_cast<unsigned char>(bytes_[begin_ + i])} << (8 * i);
    if (size > protocol::kFrameBytesMax) return tl::unexpected(protocol::frame_too_large(size));
    if (left < kLengthBytes + size) {
        bytes_.erase(0, std::exchange(begin_, 0));
        return std::nullopt;
    }
    std::string frame = bytes_.substr(begin_ + kLengthBytes, size);
    begin_ += kLengthBytes + size;
    return frame;
}

std::string with_length(const std::string& frame) {
    std::string bytes;
    bytes.reserve(kLengthBytes + frame.size());
    for (std::size_t i = 0; i < kLengthBytes; ++i)
        bytes.push_back(static_cast<char>(frame.size() >> (8 * i)));
    return bytes += frame;
}

std::optional<std::uint32_t> peer_uid(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
    return peer.uid;
}

Descriptor connect_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return {};
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return {};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof kSendPatience);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(socket.get(), to, sizeof address) != 0) {
        const int why = errno;
        socket.reset();
        errno = why;
    }
    return socket;
}

std::optional<LocalStream> LocalStream::connect(const std::string& path) {
    Descriptor socket = connect_unix(path);
    if (!socket) return std::nullopt;
    const auto uid = peer_uid(socket.get());
    if (!uid || (*uid != ::geteuid() && ::geteuid() != 0)) return std::nullopt;
    return LocalStream(std::move(socket));
}

bool LocalStream::send(const std::string& frame) {
    const std::string bytes = with_length(frame);
    for (std::size_t sent = 0; sent < bytes.size() && socket_;) {
        const auto some =
            ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (some > 0)
            sent += static_cast<std::size_t>(some);
        else if (errno != EINTR)
            socket_.reset();  // close the stream, because a part of the frame may have been sent
    }
    return !closed();
}

std::optional<std::string> LocalStream::receive(std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::array<char, 64 << 10> chunk;  // NOLINT: filled by recv
    while (socket_) {
        auto frame = reader_.next();
        if (!frame) break;
        if (*frame) return *std::move(frame);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        pollfd item = {socket_.get(), POLLIN, 0};
        if (left.count() <= 0) return std::nullopt;
        if (::poll(&item, 1, static_cast<int>(left.count())) <= 0) continue;
        const auto some = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
        if (some > 0)
            reader_.add(chunk.data(), static_cast<std::size_t>(some));
        else if (some == 0 || errno != EINTR)
            break;
    }
    socket_.reset();
    return std::nullopt;
}

}  // namespace roll::io
