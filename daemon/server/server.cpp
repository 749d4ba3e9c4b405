#include "daemon/server/server.hpp"

#include <algorithm>
#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/protocol/pieces.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/dispatch/dispatch.hpp"
#include "daemon/gateway/ended_workers.hpp"
#include "daemon/gateway/rivals.hpp"
#include "daemon/server/take_over.hpp"

namespace roll::server {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kBeat = 1s;
constexpr auto kHousekeeping = 10s;  // maximum time between turns
constexpr auto kFullPause = 1s;      // pause before the next try while the ledger's volume is full
constexpr const char* kZapDomain = "roll";
constexpr int kMessagesMax = 1024;  // maximum number of messages per turn
// Maximum size of an answer. The size is smaller than kFrameBytesMax, because encryption enlarges
// the frame. A worker drops the connection at a frame that is too large.
constexpr std::size_t kAnswerBytesMax = protocol::kFrameBytesMax / 4 * 3;

Instant steady_now() { return std::chrono::steady_clock::now(); }

engine::Engine make_engine(core::State state, ledger::Ledger* ledger,
                           std::shared_ptr<TurnTimes> times) {
    engine::Ledger durable;
    durable.commit = [ledger, times = std::move(times)](std::span<const core::Event> events,
                                                        Time now) {
        const Instant begin = steady_now();
        times->is_writing = true;
        auto appended = ledger->append(events, now);
        times->is_writing = false;
        times->last_commit = steady_now() - begin;
        times->commits.add(times->last_commit);
        return appended;
    };
    durable.load = [ledger] { return ledger->load(); };
    return {std::move(state), std::move(durable)};
}

// Returns the answer to the heartbeat of a worker that rolld refuses.
std::string answer_of(gateway::Refusal refusal, const protocol::Heartbeat& heartbeat,
                      std::uint64_t incarnation) {
    protocol::Answer answer;
    answer.version = heartbeat.version;
    answer.incarnation = incarnation;
    answer.sequence = heartbeat.sequence;
    answer.refused = std::move(refusal.why);
    answer.keep_asking = refusal.keep_asking;
    return protocol::encode(answer);
}

// Records the time from the moment at which the job could run until its start order is sent. Counts
// an attempt once: with the order to its first node, and not again after a restart of rolld.
void note_dispatch(const core::State& state, const protocol::StartOrder& order, TurnTimes& times) {
    if (order.node_rank != 0 || order.attempt.token.incarnation != state.incarnation) return;
    const core::Job& job = state.jobs.at(order.attempt.job);
    times.dispatches.add(wall_clock_now() - core::ready_since(state, job, state.index));
}

}  // namespace

pilots::Instant steady_ms() {
    return std::chrono::floor<std::chrono::milliseconds>(steady_now().time_since_epoch());
}

Result<std::unique_ptr<Server>> Server::make(asio::io_context& io, ServerOptions options,
                                             ledger::Ledger opened) {
    auto ledger = std::make_unique<ledger::Ledger>(std::move(opened));
    ROLL_TRY(core::State state, ledger->load());
    ROLL_TRY(const core::Started started, claim_beacon(options, state));
    ROLL_TRY(files::Pieces pieces, files::Pieces::open(options.secrets, named_pieces(state),
                                                       options.job_files_bytes, steady_now()));
    auto context = std::make_unique<io::ZmqContext>();
    io::ZmqSocket socket(*context, io::ZmqType::Router);
    socket.set_curve_server(options.keys, kZapDomain);
    auto times = std::make_shared<TurnTimes>();
    engine::Engine engine = make_engine(std::move(state), ledger.get(), times);
    ROLL_TRY(secrets::Store secrets, secrets::Store::open(options.secrets));
    ROLL_TRY(tokens::Store tokens, tokens::Store::open(options.secrets));
    const Time now = wall_clock_now();
    ROLL_TRY(const auto last, ledger->read(ledger->newest() - 1, 1, std::nullopt));
    const Time written = last.empty() ? now : last.front().at;
    const std::array<core::Input, 4> first{core::Tick{engine::ClockWatch::step_back(now, written)},
                                           started, core::SetPolicy{options.policy},
                                           core::SetSecrets{secrets.names()}};
    ROLL_TRY(const engine::Turn turn, engine.step(first, now));
    if (!turn.replies[1]) return tl::unexpected(turn.replies[1].error());
    // Create the authenticator before the socket is bound, because libzmq asks it to authenticate
    // even the first peer.
    auto server = std::unique_ptr<Server>(
        new Server(io, std::move(options), std::move(socket), std::move(context), std::move(ledger),
                   std::move(times), std::move(engine), std::move(secrets), std::move(tokens),
                   std::move(pieces)));
    ROLL_TRY_VOID(server->reader_.bind(server->options_.endpoint));
    if (!server->options_.local.empty()) ROLL_TRY_VOID(server->door_.bind(server->options_.local));
    return server;
}

Server::Server(asio::io_context& io, ServerOptions options, io::ZmqSocket socket,
               std::unique_ptr<io::ZmqContext> context, std::unique_ptr<ledger::Ledger> ledger,
               std::shared_ptr<TurnTimes> times, engine::Engine engine, secrets::Store secrets,
               tokens::Store tokens, files::Pieces pieces)
    : io_(io),
      options_(std::move(options)),
      context_(std::move(context)),
      authenticator_(std::make_unique<Authenticator>(io, *context_, socket, options_.authorized,
                                                     options_.connections_max)),
      reader_(io, std::move(socket)),
      door_(io, options_.connections_max, [this] { turn(); }),
      beacon_(options_.beacon, own_beacon(options_, engine.state().incarnation), kBeat),
      ledger_(std::move(ledger)),
      times_(std::move(times)),
      engine_(std::move(engine)),
      sessions_(options_.leases, options_.cluster),
      secrets_(std::move(secrets)),
      tokens_(std::move(tokens)),
      pieces_(std::move(pieces)),
      rate_(options_.requests_per_second, options_.request_burst),
      desk_(options_.cluster, options_.pilots, steady_ms()),
      runner_(io, options_.site, [this](const pilots::Outcome& outcome) { take_outcome(outcome); }),
      sweeps_(io, engine_.state(), [this](const auto& losers) { stop_trials(losers); }),
      readers_(io),
      terminals_(engine_.state().incarnation << 32),
      timer_(io),
      clock_(wall_clock_now(), steady_ms()),
      bulk_(api::BulkQueue::kInputsMin, engine_.state().incarnation << 32),
      started_at_(wall_clock_now()) {}

Result<void> Server::run() {
    authenticator_->start();
    io::spawn(io_, listen());
    io::spawn(io_, tick());
    io_.run();
    if (ended_) ledger_->keep_snapshot(engine_.state(), true);
    return ended_;
}

void Server::end(Error error) {
    spdlog::critical("{}", error.message);
    ended_ = tl::unexpected(std::move(error));
    stop();
}

void Server::set_policy(spec::Policy policy) {
    inputs_.push_back(core::SetPolicy{std::move(policy)});
    turn();
}

void Server::stop() {
    stopping_ = true;
    reader_.stop();
    door_.stop();
    authenticator_->stop();
    timer_.cancel();
    sweeps_.cancel();
    // Also end the other handlers, such as the handler for signals.
    asio::post(io_, [this] { io_.stop(); });
}

io::Task<void> Server::listen() {
    // g++ 12 miscompiles this loop if its body has no braces: the program traps.
    for (;;) {
        const bool readable = co_await reader_.readable();
        if (!readable) co_return;
        turn();
    }
}

// Starts a turn whenever something is due: a tick of the beacon, the end of a back-off or of a time
// limit, a Slurm command, or the answer to a waiting client. Sleeps until the next of these times.
io::Task<void> Server::tick() {
    const auto token = asio::as_tuple(asio::use_awaitable);
    while (!stopping_) {
        timer_.expires_after(until_next());
        co_await timer_.async_wait(token);
        if (stopping_) break;
        co_await asio::post(asio::use_awaitable);
        if (steady_now() >= timer_.expiry()) turn();
    }
}

std::chrono::milliseconds Server::until_next() const {
    std::chrono::milliseconds next = kHousekeeping;
    if (!engine_.state().workers.empty()) next = beacon_.until_due();
    const Time now = wall_clock_now();
    if (const auto wakeup = core::next_wakeup(engine_.state(), now))
        next = std::min(next, *wakeup - now);
    next = std::min(next, until_errand());
    if (!bulk_.empty() || pieces_.is_wanted()) next = 0ms;
    for (const WaitingForEvents& waiting : waiting_) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(waiting.until - steady_now());
        next = std::min(next, left);
    }
    if (const auto due = terminals_.due())
        next = std::min(next, std::chrono::ceil<std::chrono::milliseconds>(*due - steady_now()));
    return std::max<std::chrono::milliseconds>(next, full_ ? kFullPause : 1ms);
}

// Reads the messages that have arrived. Returns false if it stopped after kMessagesMax messages. A
// worker's heartbeat may then still be unread.
bool Server::drain() {
    bool drained = false;
    for (int i = 0; i < kMessagesMax && !drained; ++i) {
        const auto message = reader_.receive();
        drained = !message;
        if (message) take(*message);
    }
    for (int i = 0; i < kMessagesMax; ++i) {
        const auto frame = door_.receive();
        if (!frame) break;
        take(*frame);
    }
    door_.ring();
    return drained;
}

void Server::take(const io::ZmqMessage& message) {
    if (message.frames.size() != 2) return;
    const Peer peer{message.frames[0], message.user_id};
    const Identity who = authenticator_->who(message.user_id);
    if (message.frames[1].size() > protocol::kFrameBytesMax)
        return refuse_large({peer, who}, message);
    switch (who.role) {
        case Role::None: return;  // the key was revoked after connecting; send no answer
        case Role::Worker: return take_heartbeat(peer, message.frames[1]);
        case Role::Client:
        case Role::Operator: return take_request({peer, who}, message.frames[1]);
    }
}

void Server::take(const gateway::LocalFrame& message) {
    const Identity who = authenticator_->owner();
    if (who.role == Role::None) return;
    take_request({Peer{.local = message.connection}, who}, message.bytes);
}

void Server::take_heartbeat(const Peer& peer, const std::string& frame) {
    if (protocol::is_about_terminal(frame)) return take_terminal_news(peer, frame);
    if (protocol::is_about_piece(frame)) return pieces_.take(peer, frame);
    const core::State& state = engine_.state();
    auto claims = sessions_.hear_again(state, peer, frame, beacon_.published(), steady_now());
    if (!claims) {
        auto heartbeat = protocol::decode_heartbeat(frame);
        if (!heartbeat) {
            spdlog::warn("rolld cannot read a message from a worker: {}",
                         heartbeat.error().message);
            return;
        }
        if (auto refusal = gateway::refusal_of(state, sessions_, *heartbeat, beacon_.published(),
                                               steady_now())) {
            sessions_.hear_refused(*heartbeat, steady_now());
            return send(peer, answer_of(*std::move(refusal), *heartbeat, state.incarnation));
        }
        claims = sessions_.hear(state, peer, *std::move(heartbeat), beacon_.published(),
                                steady_now(), frame);
    }
    for (core::Input& claim : *claims) inputs_.push_back(std::move(claim));
}

Result<engine::Turn> Server::step() {
    const Instant begin = steady_now();
    times_->last_commit = {};
    const Time now = wall_clock_now();
    const auto stepped = clock_.stepped(now, steady_ms());
    inputs_.front() = core::Tick{stepped};
    auto turned = engine_.step(inputs_, now);
    if (turned && !turned->full) clock_.settle(stepped);
    const auto took = steady_now() - begin - times_->last_commit;
    times_->turns.add(took);
    bulk_.pace(took, times_->last_commit);
    return turned;
}

// Cancels the trials that successive halving stops. If a trial ends in this turn, the core refuses
// to cancel it. The refusal does no harm.
void Server::stop_trials(const std::vector<sweeps::Loser>& losers) {
    for (const sweeps::Loser& loser : losers) add(core::Cancel{loser.job, loser.reason, "", true});
    turn();
}

// Runs one turn in the order that leases rule 1 requires: read all messages, check whether another
// rolld took over, decide, commit, answer, and only then publish a tick (update the beacon). If
// messages are still unread, the turn counts no worker as silent and publishes no tick.
void Server::turn() {
    if (stopping_) return;
    authenticator_->refresh();
    authenticator_->give_back_memory(steady_now());
    const bool drained = drain();
    beacon_.look_again();
    if (beacon_.superseded())
        return end(
            {ErrorCode::Refused, "a newer rolld has taken over and has written the beacon file"});
    if (lost_volume()) return;
    if (drained) {
        for (core::Input& gone : sessions_.lost(engine_.state(), beacon_.published()))
            inputs_.push_back(std::move(gone));
        auto fell_silent = sessions_.quiet(engine_.state(), steady_now());
        hear_of_silence(!fell_silent.empty());
        std::ranges::move(fell_silent, std::back_inserter(inputs_));
    }
    if (engine_.state().adopting && beacon_.published() >= beats_to_adopt(options_.leases))
        inputs_.push_back(core::Adopted{});
    bulk_.add_to(inputs_);
    auto turned = step();
    if (!turned) {
        Error error = std::move(turned).error();
        error.message = "the ledger failed: " + error.message;
        return end(std::move(error));
    }
    if (turned->restless)
        spdlog::error(
            "internal error: the scheduling rules do not reach a stable state; please report "
            "this as a bug");
    answer_requests(*turned);
    for (const api::Answered& one : bulk_.settle(*turned, steady_now()))
        reply(one.waiter.peer, one.waiter.id, one.answer);
    answer_workers(*turned);
    answer_events(turned->committed > 0);
    tend_terminals();
    for (auto& [peer, frame] : pieces_.next_frames()) send(peer, std::move(frame));
    if (turned->committed > 0) ledger_->keep_snapshot(engine_.state());
    sweeps_.note_new();
    inputs_.assign(1, core::Tick{});
    turn_replies_.clear();
    outputs_.end_turn();
    full_ = turned->full;
    if (!full_) run_errands();
    // Publish a tick only if a worker has lately confirmed an answer. Otherwise the network may
    // have cut this rolld off from its workers. If all workers have ended, none can confirm an
    // answer, so no confirmation is needed.
    const bool company = sessions_.has_company(steady_now()) ||
                         desk_.only_gone_are_left(engine_.state()) ||
                         gateway::all_have_ended(engine_.state(), options_.workers);
    if (drained && company) beacon_.beat();
    reader_.look_again();
    timer_.cancel();
}

// Ends this rolld and returns true if the beacon could not be read for `volume_patience` (leases
// rule 18): another rolld may have taken over unnoticed.
bool Server::lost_volume() {
    const auto patience = options_.leases.volume_patience;
    if (patience.count() == 0 || beacon_.unread_for() < patience) return false;
    end({ErrorCode::Unavailable,
         fmt::format("{} could not be read for {} s: another rolld may have taken over",
                     options_.beacon.string(),
                     std::chrono::duration_cast<std::chrono::seconds>(patience).count())});
    return true;
}

// Sends a frame. Does nothing if the peer's key was revoked before this turn began.
void Server::send(const Peer& peer, std::string frame) {
    if (peer.local != 0) return door_.send(peer.local, frame);
    if (authenticator_->who(peer.key).role == Role::None) return;
    reader_.send({peer.route, std::move(frame)});
}

void Server::reply(const Peer& peer, std::uint64_t id, const Result<Json>& value) {
    std::string frame = value ? protocol::encode_reply(id, *value, peer.version)
                              : protocol::encode_reply(id, value.error(), peer.version);
    if (frame.size() > protocol::kFrameBytesMax) {
        const Error error{ErrorCode::Refused,
                          fmt::format("the answer has {} bytes; a message may have at most {}",
                                      frame.size(), protocol::kFrameBytesMax),
                          "ask for fewer jobs or fields"};
        frame = protocol::encode_reply(id, error, peer.version);
    }
    send(peer, std::move(frame));
}

void Server::answer_requests(const engine::Turn& turn) {
    for (const TurnReply& pending : turn_replies_) {
        const auto results = std::span(turn.replies).subspan(pending.first, pending.count);
        const auto refused =
            std::ranges::find_if(results, [](const auto& one) { return !one.has_value(); });
        if (refused != results.end()) {
            reply(pending.peer, pending.id, tl::unexpected(refused->error()));
            continue;
        }
        const bool changed =
            std::ranges::any_of(results, [](const Result<bool>& one) { return *one; });
        reply(pending.peer, pending.id, pending.reply(engine_.state(), changed));
    }
}

// Answers the workers that sent a heartbeat in this turn and the workers whose orders have changed.
// The cost of a turn therefore does not depend on the number of workers.
void Server::answer_workers(const engine::Turn& turn) {
    const core::State& state = engine_.state();
    const auto before =
        std::exchange(orders_, dispatch::orders(state, turn.owed, options_.cluster));
    std::set<WorkerId> due;
    for (const auto& [id, orders] : orders_) {
        const auto known = before.find(id);
        if (known == before.end() || known->second != orders) due.insert(id);
    }
    for (const auto& [id, orders] : before)
        if (!orders_.contains(id)) due.insert(id);
    for (const std::string& session : sessions_.take_owing()) {
        if (const auto worker = sessions_.worker_of(state, session)) due.insert(*worker);
    }
    for (const WorkerId id : due) {
        const auto worker = state.workers.find(id);
        if (worker != state.workers.end()) answer_worker(id, worker->second);
    }
    sessions_.forget_gone(state);
}

void Server::answer_worker(WorkerId id, const core::Worker& worker) {
    const core::State& state = engine_.state();
    const auto found = sessions_.all().find(worker.session);
    if (found == sessions_.all().end()) return;
    Session& session = found->second;
    const auto orders = orders_.find(id);
    protocol::Answer answer = orders == orders_.end() ? protocol::Answer{} : orders->second;
    fill_secrets(session, id, answer);
    for (const auto& order : answer.start) {
        const auto sent = session.ordered.insert_or_assign(order.attempt, steady_now());
        if (sent.second) note_dispatch(state, order, *times_);
    }
    dispatch::add_verdicts(state, id, session.last.running, answer);
    times_->fenced += answer.fenced.size();
    answer.version = session.last.version;
    answer.incarnation = state.incarnation;
    answer.sequence = session.last.sequence;
    answer.counted = session.counted;
    answer.counter = session.renewed_at;
    answer.beacon = options_.beacon.string();
    for (std::string& frame : dispatch::frames(std::move(answer), kAnswerBytesMax))
        send(session.peer, std::move(frame));
}

void Server::answer_events(bool committed) {
    std::erase_if(waiting_, [&](const WaitingForEvents& waiting) {
        const bool late = steady_now() >= waiting.until;
        if (!committed && !late) return false;
        const auto rows = ledger_->read(waiting.since, waiting.limit, waiting.job);
        if (rows && rows->empty() && !late) return false;
        reply(waiting.peer, waiting.id,
              rows ? Result<Json>(query::events(engine_.state(), *rows, waiting.since))
                   : tl::unexpected(rows.error()));
        return true;
    });
}

namespace {

// Returns the progress that the members of the job's attempt reported in their last heartbeats.
std::vector<query::Told> told_of(const core::State& state, const Sessions& sessions, JobId id) {
    std::vector<query::Told> all;
    const auto& attempt = state.jobs.at(id).attempt;
    if (!attempt) return all;
    for (const core::Place& place : attempt->places) {
        const auto worker = state.workers.find(place.worker);
        if (worker == state.workers.end()) continue;
        const auto session = sessions.all().find(worker->second.session);
        if (session == sessions.all().end()) continue;
        for (const protocol::RunningAttempt& running : session->second.last.running)
            if (running.attempt == AttemptKey{id, attempt->token})
                all.push_back({worker->second.node, running.progress});
    }
    return all;
}

}  // namespace

query::Hearsay Server::hearsay() const {
    query::Hearsay hearsay;
    hearsay.told = [this](JobId id) { return told_of(engine_.state(), sessions_, id); };
    for (const auto& [id, a] : engine_.state().allocations) hearsay.slurm[id] = desk_.hearsay(id);
    hearsay.slurm_trouble = desk_.trouble();
    for (const auto& [id, worker] : engine_.state().workers) {
        const auto session = sessions_.all().find(worker.session);
        if (session == sessions_.all().end()) continue;
        const auto ago = steady_now() - session->second.heard_at;
        const protocol::Heartbeat& last = session->second.last;
        hearsay.workers[id] = {std::chrono::ceil<std::chrono::milliseconds>(ago).count(),
                               last.limits, last.wall, last.process};
    }
    return hearsay;
}

}  // namespace roll::server
