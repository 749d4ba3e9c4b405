// Passes data of terminals in jobs (`rollctl shell`) between clients and workers.
#include <algorithm>

#include <fmt/format.h>

#include "common/spec/job/features.hpp"
#include "daemon/server/server.hpp"

namespace roll::server {

Result<void> Server::open_terminal(const Asking& asking, const api::OpenTerminal& open) {
    const core::State& state = engine_.state();
    const auto worker = state.workers.find(open.opening.worker);
    const auto session = worker == state.workers.end()
                             ? sessions_.all().end()
                             : sessions_.all().find(worker->second.session);
    if (session == sessions_.all().end())
        return fail(ErrorCode::Unavailable,
                    fmt::format("node {} is not connected to rolld", open.node), "rollctl nodes");
    const auto& features = session->second.last.features;
    if (std::ranges::find(features, spec::kShell) == features.end())
        return fail(ErrorCode::Refused,
                    fmt::format("the roll-worker of {} is of an older release, which cannot run a "
                                "shell in a job",
                                open.node),
                    "update Roll on the node to rolld's release");
    ROLL_TRY(const std::uint64_t terminal,
             terminals_.open(open.opening, std::chrono::steady_clock::now()));
    reply(asking.peer, asking.id,
          protocol::reply_json(protocol::ShellOpenReply{terminal, open.node},
                               protocol::ShellOpenArgs::kOperation.reply));
    return {};
}

// Takes a worker's message about a terminal. Ignores a message from a worker that does not run the
// terminal's program.
void Server::take_terminal_news(const Peer& peer, const std::string& frame) {
    auto news = protocol::decode_terminal_news(frame);
    if (!news) return;
    const core::State& state = engine_.state();
    const auto worker = state.workers.find(terminals_.worker_of(news->terminal));
    if (worker == state.workers.end()) return;
    const auto session = sessions_.all().find(worker->second.session);
    if (session == sessions_.all().end() || session->second.peer.key != peer.key) return;
    terminals_.hear(*std::move(news));
}

// Sends the messages about terminals that this turn has collected for workers and clients.
void Server::tend_terminals() {
    const auto now = std::chrono::steady_clock::now();
    const core::State& state = engine_.state();
    terminals_.tidy(state, now);
    for (const auto& [id, order] : terminals_.take_orders()) {
        const auto worker = state.workers.find(id);
        if (worker == state.workers.end()) continue;
        const auto session = sessions_.all().find(worker->second.session);
        if (session != sessions_.all().end()) send(session->second.peer, protocol::encode(order));
    }
    for (const auto& [peer, id, value] : terminals_.take_replies(now)) reply(peer, id, value);
}

}  // namespace roll::server
