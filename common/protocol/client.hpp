// The protocol between clients and rolld. Each request has one reply, and both are JSON. A reply's
// `ok` is exactly the value that `rollctl --json` prints, with its "schema": "roll.NAME/1".
//
//   request  {"v":1, "id":7, "op":"submit", "args":{...}}
//   reply    {"v":1, "id":7, "ok":{...}}   or   {"v":1, "id":7, "error":{"code","message","hint"}}
//
// docs/internals.md has the table of operations with their arguments and replies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/worker.hpp"

namespace roll::protocol {

constexpr std::size_t kFrameBytesMax = 16u << 20;
// If a frame exceeds kFrameBytesMax but not this size, rolld answers with an error. If a frame is
// even larger, libzmq closes the connection, and neither side learns why.
constexpr std::size_t kFrameReadMax = 5 * kFrameBytesMax;
constexpr std::size_t kKeyBytesMax = 256;  // maximum size of a submission's idempotency key

struct Request {
    std::uint64_t id = 0;
    std::string op;
    Json args = Json::object();
    int version = kVersion;  // the client's protocol version
};

std::string encode(const Request& request);
std::string encode_request(std::uint64_t id, const std::string& op, const Json& args,
                           int version = kVersion);
Result<Request> decode_request(std::string_view frame);

// Returns the error for a frame of more than kFrameBytesMax.
Error frame_too_large(std::size_t bytes);

// Returns the id of a request that decode_request() rejected, for the error reply; 0 if the request
// has no id.
std::uint64_t request_id(std::string_view frame);

// Encodes a reply in the client's protocol version.
std::string encode_reply(std::uint64_t id, const Json& ok, int version = kVersion);
std::string encode_reply(std::uint64_t id, const Error& error, int version = kVersion);

// Returns the value `ok` of the reply. If the reply is an error, fails with this error. Fails with
// Corrupt if the frame is not a reply to request `id`.
Result<Json> decode_reply(std::string_view frame, std::uint64_t id);

Json error_json(const Error& error);  // returns {"error": {"code", "message", "hint"}}

}  // namespace roll::protocol
