// A client's connection to a rolld on the same machine over a Unix stream socket. The kernel
// reports the peer's user (SO_PEERCRED), so there are no keys and no handshake.
//
// A frame is sent as its length (4 bytes, little-endian) followed by its bytes. A frame has at most
// kFrameBytesMax bytes.
// Requests and replies are the same as over ZeroMQ (common/protocol/client.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::io {

// Extracts frames from a stream of bytes.
class FrameReader {
  public:
    void add(const char* bytes, std::size_t size) { bytes_.append(bytes, size); }

    // Returns the next whole frame; nullopt if more bytes are needed. Fails with
    // InvalidArgument if the frame's length exceeds the limit.
    Result<std::optional<std::string>> next();

  private:
    std::string bytes_;
    std::size_t begin_ = 0;  // offset of the first byte not yet returned
};

// Returns the bytes to send for a frame: its length, then the frame.
std::string with_length(const std::string& frame);

// Returns the user id of the process at the other end; nullopt if the kernel does not report it.
std::optional<std::uint32_t> peer_uid(int socket);

// Returns a connected Unix stream socket. On failure, returns an empty Descriptor and sets errno.
Descriptor connect_unix(const std::string& path);

// A client's end of the stream. Blocks the calling thread. Not thread-safe.
class LocalStream {
  public:
    // Connects to the socket at `path`. Returns nullopt if no process listens, or if the listener
    // belongs to another user. root may connect to any user's socket.
    static std::optional<LocalStream> connect(const std::string& path);

    // Sends a frame. Returns false if the connection is closed.
    bool send(const std::string& frame);
    // Returns the next frame; nullopt on a timeout, or if the connection is closed (see closed()).
    std::optional<std::string> receive(std::chrono::milliseconds timeout);
    bool closed() const { return !socket_; }
    int descriptor() const { return socket_.get(); }  // -1 if the connection is closed

  private:
    explicit LocalStream(Descriptor socket) : socket_(std::move(socket)) {}
    Descriptor socket_;
    FrameReader reader_{};
};

}  // namespace roll::io
