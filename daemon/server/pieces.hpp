// Sends the files of jobs to workers, in pieces.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/state/state.hpp"
#include "daemon/files/pieces.hpp"
#include "daemon/gateway/sessions.hpp"

namespace roll::server {

// Returns all pieces that the jobs in the ledger need for their files.
std::set<std::string> named_pieces(const core::State& state);

class PieceSender {
  public:
    explicit PieceSender(files::Pieces stored) : stored_(std::move(stored)) {}
    files::Pieces& stored() { return stored_; }

    // Takes a worker's request for a piece. A new request of a worker replaces the earlier one.
    void take(const gateway::Peer& peer, const std::string& frame);
    bool is_wanted() const { return !wanted_.empty(); }
    // Returns the answers to send in this turn, and their receivers. Returns at most eight answers,
    // so that nodes which fetch files do not delay the turn.
    std::vector<std::pair<gateway::Peer, std::string>> next_frames();

  private:
    struct Wanted {
        gateway::Peer peer;
        std::string piece{};
    };
    files::Pieces stored_;
    std::deque<Wanted> wanted_{};
};

}  // namespace roll::server
