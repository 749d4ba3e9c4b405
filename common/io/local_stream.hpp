// A client's connection to the rolld of its own machine: a Unix stream socket. The kernel tells
// each side whose process the other is (SO_PEERCRED), so there are no keys and no handshake.
//
// A frame is its length (4 bytes, the low one first) and so many bytes, at most kFrameBytesMax: the
// same requests and replies as over ZeroMQ (common/protocol/client.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::io {

// Takes frames out of a stream of bytes as they come.
class FrameReader {
  public:
    void add(const char* bytes, std::size_t size) { bytes_.append(bytes, size); }

    // The next whole frame; nothing: more is needed. Error Corrupt: it says that it is too large.
    Result<std::optional<std::string>> next();

  private:
    std::string bytes_;
    std::size_t begin_ = 0;  // of what was not taken yet
};

// Its length and itself, as sent.
std::string with_length(const std::string& frame);

// Whose process is at the other end; nothing: the kernel does not say.
std::optional<std::uint32_t> peer_uid(int socket);

// A connected Unix stream socket, or none, with errno.
Descriptor connect_unix(const std::string& path);

// Blocks its thread. Not thread-safe.
class LocalStream {
  public:
    // None where nobody listens, or somebody else than this user (for root: anybody) does.
    static std::optional<LocalStream> connect(const std::string& path);

    // False: the other side is gone.
    bool send(const std::string& frame);
    // Nothing: the time is up, or the other side is gone, which closed() tells.
    std::optional<std::string> receive(std::chrono::milliseconds timeout);
    bool closed() const { return !socket_; }

  private:
    explicit LocalStream(Descriptor socket) : socket_(std::move(socket)) {}
    Descriptor socket_;
    FrameReader reader_{};
};

}  // namespace roll::io
