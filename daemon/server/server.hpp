// Runs rolld's loop. Each turn reads the sockets, converts messages to inputs, runs the engine, and
// then sends answers, so that nothing uncommitted is visible outside.
// Everything runs on one thread. run() returns after stop(), after a client's `shutdown`, or on an
// error that a restart may fix.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/io/zmq_reader.hpp"
#include "common/protocol/client.hpp"
#include "common/rate_limit.hpp"
#include "daemon/api/bulk.hpp"
#include "daemon/api/operations.hpp"
#include "daemon/engine/clock_watch.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/files/readers.hpp"
#include "daemon/gateway/authenticator.hpp"
#include "daemon/gateway/beacon_writer.hpp"
#include "daemon/gateway/local_door.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/gateway/terminals.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/pilots/runner.hpp"
#include "daemon/query/query.hpp"
#include "daemon/secrets/store.hpp"
#include "daemon/server/options.hpp"
#include "daemon/server/pending.hpp"
#include "daemon/server/pieces.hpp"
#include "daemon/server/turn_times.hpp"
#include "daemon/sweeps/watch.hpp"

namespace roll::server {

using gateway::Authenticator;
using gateway::BeaconWriter;
using gateway::Role;
using gateway::Session;
using gateway::Sessions;

pilots::Instant steady_ms();

class Server {
  public:
    // Binds the sockets. Fails with Refused if the endpoint is taken.
    static Result<std::unique_ptr<Server>> make(boost::asio::io_context& io, ServerOptions options,
                                                ledger::Ledger ledger);

    // Serves until stop() or a `shutdown` request. Fails if an error forces the loop to end.
    Result<void> run();
    void stop();
    // Ends the beacon's thread after run(). Returns false if it hangs; ~Server() then hangs, too.
    bool let_go() { return beacon_.end(std::chrono::seconds(2)); }
    void set_policy(spec::Policy policy);  // Replaces the policy after rolld.yaml was read again.
    std::string endpoint() const { return reader_.bound_endpoint(); }
    const core::State& state() const { return engine_.state(); }
    std::shared_ptr<const TurnTimes> times() const { return times_; }

  private:
    Server(boost::asio::io_context& io, ServerOptions options, io::ZmqSocket socket,
           std::unique_ptr<io::ZmqContext> context, std::unique_ptr<ledger::Ledger> ledger,
           std::shared_ptr<TurnTimes> times, engine::Engine engine, secrets::Store secrets,
           tokens::Store tokens, files::Pieces pieces);

    io::Task<void> listen();
    io::Task<void> tick();
    bool drain();
    void take(const io::ZmqMessage& message);
    void take(const gateway::LocalFrame& message);
    void refuse_large(const Client& client, const io::ZmqMessage& message);
    void take_heartbeat(const Peer& peer, const std::string& frame);
    void take_request(const Client& client, const std::string& frame);
    Result<void> take_request(const Client& client, const protocol::Request& request);
    Result<void> carry_out(const Asking& asking, api::Plan plan);
    Result<void> open_terminal(const Asking& asking, const api::OpenTerminal& open);
    void take_terminal_news(const Peer& peer, const std::string& frame);
    void tend_terminals();
    Result<void> await_events(const Asking& asking, const api::AwaitEvents& await);
    void read_job_file(const Asking& asking, files::JobFileRequest request);
    api::Context context();
    protocol::VersionReply version() const;
    void fill_secrets(const Session& session, WorkerId worker, protocol::Answer& answer);
    void run_errands();
    void stop_trials(const std::vector<sweeps::Loser>& losers);
    void withdraw();
    void hear_of_silence(bool fell_silent);
    void take_outcome(const pilots::Outcome& outcome);
    std::chrono::milliseconds until_errand() const;
    std::size_t add(core::Input input);
    void add_later(core::Input input);
    void turn();
    bool lost_volume();
    Result<engine::Turn> step();
    void send(const Peer& peer, std::string frame);
    void reply(const Peer& peer, std::uint64_t id, const Result<Json>& value);
    void answer_requests(const engine::Turn& turn);
    void answer_workers(const engine::Turn& turn);
    void answer_worker(WorkerId id, const core::Worker& worker);
    void answer_events(bool committed);
    query::Hearsay hearsay() const;
    void end(Error error);
    std::chrono::milliseconds until_next() const;

    boost::asio::io_context& io_;
    ServerOptions options_;
    std::unique_ptr<io::ZmqContext> context_;
    std::unique_ptr<Authenticator> authenticator_;
    io::ZmqReader reader_;
    gateway::LocalDoor door_;
    BeaconWriter beacon_;
    std::unique_ptr<ledger::Ledger> ledger_;
    std::shared_ptr<TurnTimes> times_;
    engine::Engine engine_;
    Sessions sessions_;
    secrets::Store secrets_;
    tokens::Store tokens_;
    PieceSender pieces_;
    RateLimit rate_;
    pilots::Desk desk_;
    pilots::Runner runner_;
    sweeps::Watch sweeps_;
    files::Readers readers_;
    gateway::Terminals terminals_;
    boost::asio::steady_timer timer_;
    engine::ClockWatch clock_;
    std::vector<core::Input> inputs_{core::Tick{}};  // inputs of the next turn; the first is a Tick
    std::vector<TurnReply> turn_replies_{};
    api::BulkQueue bulk_;
    api::Outputs outputs_{};
    std::list<WaitingForEvents> waiting_{};
    // Orders for each worker in the last turn, to find the workers whose orders have changed
    std::map<WorkerId, protocol::Answer> orders_{};
    Time started_at_{};
    bool stopping_ = false;
    bool full_ = false;         // true if the ledger's volume was full in the last turn
    bool withdrawing_ = false;  // true while a turn that withdraws unsent requests is scheduled
    Result<void> ended_{};
};

}  // namespace roll::server
