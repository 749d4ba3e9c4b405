#include "daemon/server/pieces.hpp"

#include <algorithm>

#include "common/protocol/pieces.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/job/staged_files.hpp"

namespace roll::server {

std::set<std::string> named_pieces(const core::State& state) {
    std::set<std::string> named;
    for (const auto& [id, job] : state.jobs) {
        if (!spec::has_files(job.spec)) continue;
        const auto document = spec::read_document(job.spec.document.text());
        if (!document) continue;
        try {
            for (spec::StagedFile& file : spec::staged_files(*document))
                for (std::string& piece : file.pieces) named.insert(std::move(piece));
        } catch (const Json::exception&) {
            continue;  // a malformed document must not keep rolld from starting
        }
    }
    return named;
}

void PieceSender::take(const gateway::Peer& peer, const std::string& frame) {
    auto request = protocol::decode_piece_request(frame);
    if (!request) return;
    const auto known =
        std::ranges::find(wanted_, peer.route, [](const Wanted& one) { return one.peer.route; });
    if (known != wanted_.end())
        known->piece = std::move(request->piece);
    else
        wanted_.push_back({peer, std::move(request->piece)});
}

std::vector<std::pair<gateway::Peer, std::string>> PieceSender::next_frames() {
    constexpr std::size_t kPiecesOfTurn = 8;
    std::vector<std::pair<gateway::Peer, std::string>> frames;
    while (frames.size() < kPiecesOfTurn && !wanted_.empty()) {
        const Wanted wanted = std::move(wanted_.front());
        wanted_.pop_front();
        protocol::Piece piece{.piece = wanted.piece};
        if (auto bytes = stored_.read(wanted.piece))
            piece.bytes = *std::move(bytes);
        else
            piece.trouble = bytes.error().message;
        frames.emplace_back(wanted.peer, protocol::encode(piece));
    }
    return frames;
}

}  // namespace roll::server
