// The messages with which a roll-worker fetches the files of a job (key `files`) from rolld. These
// messages use the connection of the heartbeats, but begin with kPieceMark, so that neither side
// takes them for a heartbeat or an answer. rolld sends them only to workers with the feature
// `files`.
#pragma once

#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll::protocol {

constexpr std::string_view kPieceMark = "piece ";

inline bool is_about_piece(std::string_view frame) { return frame.starts_with(kPieceMark); }

// From a worker to rolld: asks for the piece with this SHA-256.
struct PieceRequest {
    std::string piece{};
    friend bool operator==(const PieceRequest&, const PieceRequest&) = default;
};

// From rolld to a worker: the answer to a PieceRequest.
struct Piece {
    std::string piece{};    // SHA-256 of the bytes
    std::string trouble{};  // why rolld cannot send the piece; empty: rolld sends the piece
    std::string bytes{};
    friend bool operator==(const Piece&, const Piece&) = default;
};

// The bytes of a piece follow the JSON of the message after a newline, so that rolld need not
// encode them as JSON text.
std::string encode(const PieceRequest& request);
std::string encode(const Piece& piece);
Result<PieceRequest> decode_piece_request(std::string_view frame);
Result<Piece> decode_piece(std::string_view frame);

}  // namespace roll::protocol
