#include "common/protocol/pieces.hpp"

#include "common/json.hpp"

namespace roll::protocol {
namespace {

std::string piece_frame(const Json& json, std::string_view bytes = {}) {
    std::string frame(kPieceMark);
    frame += dump(json);
    frame += '\n';
    return frame.append(bytes);
}

// Returns the JSON of a message, and sets `bytes` to the bytes after the JSON.
Result<Json> head_of(std::string_view frame, std::string_view& bytes) {
    if (!is_about_piece(frame))
        return fail(ErrorCode::Corrupt, "piece: the message does not begin with the word piece");
    frame.remove_prefix(kPieceMark.size());
    const std::size_t end = frame.find('\n');
    if (end == frame.npos)
        return fail(ErrorCode::Corrupt, "piece: no newline after the JSON of the message");
    bytes = frame.substr(end + 1);
    return parse_json(frame.substr(0, end));
}

}  // namespace

std::string encode(const PieceRequest& request) { return piece_frame({{"piece", request.piece}}); }

std::string encode(const Piece& piece) {
    Json json = {{"piece", piece.piece}};
    if (!piece.trouble.empty()) json["trouble"] = piece.trouble;
    return piece_frame(json, piece.bytes);
}

Result<PieceRequest> decode_piece_request(std::string_view frame) {
    std::string_view bytes;
    ROLL_TRY(const Json json, head_of(frame, bytes));
    JsonReader r(json, "piece");
    PieceRequest request{r.get<std::string>("piece")};
    ROLL_TRY_VOID(r.finish_lenient());
    return request;
}

Result<Piece> decode_piece(std::string_view frame) {
    std::string_view bytes;
    ROLL_TRY(const Json json, head_of(frame, bytes));
    JsonReader r(json, "piece");
    Piece piece{r.get<std::string>("piece"), r.get_or("trouble", std::string{}),
                std::string(bytes)};
    ROLL_TRY_VOID(r.finish_lenient());
    return piece;
}

}  // namespace roll::protocol
