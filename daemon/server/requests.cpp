// Reads requests of clients, and carries out the plans that their handlers (daemon/api) return.
#include <algorithm>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/overload.hpp"
#include "daemon/server/server.hpp"

namespace roll::server {
namespace {

constexpr int kWaitMsMax = 60'000;

// Returns the waiting client of the request `asking`. The client waits at most `wait_ms`
// milliseconds, or kWaitMsMax if that is less. If `wait_ms` is missing or negative, the client
// waits until the request is done.
api::Waiter waiter_of(const Asking& asking, const std::string& user, std::optional<int> wait_ms) {
    api::Waiter waiter{asking.peer, asking.id, user, std::nullopt};
    if (wait_ms.value_or(-1) >= 0)
        waiter.until = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(std::min(*wait_ms, kWaitMsMax));
    return waiter;
}

}  // namespace

std::size_t Server::add(core::Input input) {
    inputs_.push_back(std::move(input));
    return inputs_.size() - 1;
}

// Schedules a separate turn with this input after the current one.
void Server::add_later(core::Input input) {
    boost::asio::post(io_, [this, input = std::move(input)] {
        add(input);
        turn();
    });
}

// Refuses a message that is larger than kFrameBytesMax. Sends the error only if a user sent the
// message. A worker gets no answer, because an answer would acknowledge its heartbeat.
void Server::refuse_large(const Client& client, const io::ZmqMessage& message) {
    if (client.who.role == Role::None) return;
    const std::string& frame = message.frames[1];
    const Error error = protocol::frame_too_large(frame.size());
    const bool is_worker = client.who.role == Role::Worker;
    spdlog::warn("rolld refused a message from {} at {}: {}",
                 is_worker ? "a worker" : "user " + client.who.user,
                 message.address.empty() ? "an unknown address" : message.address, error.message);
    if (!is_worker) reply(client.peer, protocol::request_id(frame), tl::unexpected(error));
}

// Handles one request. The handlers check a client's input. Exceptions are caught here
// nevertheless, because no request may end rolld.
void Server::take_request(const Client& client, const std::string& frame) {
    Peer peer = client.peer;
    const auto request = protocol::decode_request(frame);
    if (!request) {
        reply(peer, protocol::request_id(frame), tl::unexpected(request.error()));
        return;
    }
    peer.version = request->version;
    try {
        const auto taken = take_request({peer, client.who}, *request);
        if (!taken) reply(peer, request->id, tl::unexpected(taken.error()));
    } catch (const Json::exception& e) {
        reply(peer, request->id,
              fail(ErrorCode::InvalidArgument, std::string("the request is malformed: ") + e.what(),
                   "rollctl and rolld may be of different versions; see `rollctl version`"));
    }
}

Result<void> Server::take_request(const Client& client, const protocol::Request& request) {
    if (rate_.take(client.who.user, std::chrono::steady_clock::now())) {
        return fail(ErrorCode::Refused,
                    fmt::format("{} sends too many requests; allowed: {} a second", client.who.user,
                                rate_.per_second()),
                    "wait a moment, or submit many jobs in one file");
    }
    const api::Caller caller{client.who.role, client.who.user};
    ROLL_TRY(const api::ServedOperation* operation, api::find_for(caller, request.op));
    ROLL_TRY(api::Plan plan, operation->handle(context(), caller, request.args));
    return carry_out({client.peer, request.id}, std::move(plan));
}

api::Context Server::context() {
    return {.state = engine_.state(),
            .ledger = *ledger_,
            .secrets = secrets_,
            .tokens = tokens_,
            .outputs = outputs_,
            .pieces = pieces_.stored(),
            .site = options_.site,
            .cluster = options_.cluster,
            .endpoint = options_.endpoint,
            .hearsay = [this] { return hearsay(); },
            .version = [this] { return version(); },
            .role_of = [this](const std::string& user) { return authenticator_->role_of(user); },
            .now = wall_clock_now()};
}

static Json space_json(const ledger::Space& space) {
    Json json = Json::object();
    if (space.bytes) json["bytes"] = *space.bytes;
    if (space.wal_bytes) json["wal_bytes"] = *space.wal_bytes;
    if (space.free_bytes) json["free_bytes"] = *space.free_bytes;
    return json;
}

protocol::VersionReply Server::version() const {
    return {.version = ROLL_VERSION,
            .incarnation = engine_.state().incarnation,
            .pid = ::getpid(),
            .uid = ::geteuid(),
            .started_at = to_iso8601(started_at_),
            .turns = times_->turns.json(),
            .commits = times_->commits.json(),
            .ledger = space_json(ledger_->space()),
            .dispatches = times_->dispatches.json(),
            .fenced = times_->fenced};
}

Result<void> Server::carry_out(const Asking& asking, api::Plan plan) {
    const auto answer = [&](Json json) {
        reply(asking.peer, asking.id, std::move(json));
        return Result<void>();
    };
    return std::visit(
        Overload{
            [&](api::ReplyNow& now) { return answer(std::move(now.json)); },
            [&](api::ReplyAndStop& last) {
                boost::asio::post(io_, [this] { stop(); });
                return answer(std::move(last.json));
            },
            [&](api::RunTurn& turn) {
                TurnReply pending{inputs_.size(), turn.inputs.size(), asking.peer, asking.id,
                                  std::move(turn.reply)};
                for (core::Input& input : turn.inputs) add(std::move(input));
                turn_replies_.push_back(std::move(pending));
                return Result<void>();
            },
            [&](api::ChangeJobs& change) {
                bulk_.ask({.waiter = waiter_of(asking, change.user, change.wait_ms),
                           .jobs = std::move(change.jobs),
                           .add_inputs = std::move(change.add_inputs),
                           .answer = std::move(change.answer)});
                return Result<void>();
            },
            [&](api::AwaitChange& await) {
                return bulk_.ask_again(await.ticket, waiter_of(asking, await.user, await.wait_ms));
            },
            [&](api::AwaitEvents& await) { return await_events(asking, await); },
            [&](api::OpenTerminal& open) { return open_terminal(asking, open); },
            [&](api::WriteTerminal& write) -> Result<void> {
                ROLL_TRY(
                    const std::uint64_t taken,
                    terminals_.write(write.user, write.args, std::chrono::steady_clock::now()));
                return answer(protocol::reply_json(protocol::ShellWriteReply{taken},
                                                   protocol::ShellWriteArgs::kOperation.reply));
            },
            [&](api::ReadTerminal& read) {
                return terminals_.read(read.user, read.args, asking.peer, asking.id,
                                       std::chrono::steady_clock::now());
            },
            [&](api::ReadJobFile& read) {
                read_job_file(asking, std::move(read.request));
                return Result<void>();
            }},
        plan);
}

void Server::read_job_file(const Asking& asking, files::JobFileRequest request) {
    const std::string output = request.output;
    const auto read = [request = std::move(request), state = options_.secrets] {
        return files::read_job_file(request, state);
    };
    readers_.start(output, read, [this, asking](const Result<Json>& result) {
        reply(asking.peer, asking.id, result);
        reader_.look_again();
    });
}

Result<void> Server::await_events(const Asking& asking, const api::AwaitEvents& await) {
    const auto wait = std::chrono::milliseconds(std::clamp(await.wait_ms, 0, kWaitMsMax));
    ROLL_TRY(const auto rows, ledger_->read(await.since, await.limit, await.job));
    if (rows.empty() && wait.count() > 0)
        waiting_.push_back({asking.peer, asking.id, await.since, await.limit, await.job,
                            std::chrono::steady_clock::now() + wait});
    else
        reply(asking.peer, asking.id, query::events(engine_.state(), rows, await.since));
    return {};
}

}  // namespace roll::server
