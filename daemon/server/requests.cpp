// The operations of the client protocol (docs/internals.md).
#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/spec/document.hpp"
#include "common/spec/job_json.hpp"
#include "daemon/server/server.hpp"

namespace roll::server {
namespace {

constexpr int kEventsMax = 10'000;
constexpr int kWaitMsMax = 60'000;

Json ids_json(const std::vector<JobId>& ids) {
    Json list = Json::array();
    for (const JobId id : ids) list.push_back(id.value);
    return list;
}

Json changed_json(const std::string& op, const std::vector<JobId>& open,
                  const std::vector<JobId>& over) {
    const char* const schema = op == "cancel"   ? "roll.cancel/1"
                               : op == "update" ? "roll.updated/1"
                               : op == "close"  ? "roll.closed/1"
                                                : "roll.held/1";
    const char* const changed = op == "cancel" ? "cancelled" : "jobs";
    return {{"schema", schema}, {changed, ids_json(open)}, {"over", ids_json(over)}};
}

// Returns the number of jobs that a submission makes: the tasks of its array, or the jobs of its
// chain.
std::size_t count_jobs(const spec::JobSpec& spec) {
    const auto indices = spec.array ? spec::array_indices(spec.array->indices) : std::vector{0};
    return (indices ? indices->size() : 0) + spec.then.size();
}

// Returns a waiter that waits at most `wait_ms`, or until the request is done if `wait_ms` is
// negative.
Waiter waiter_of(const Client& client, const protocol::Request& request, int wait_ms) {
    Waiter waiter{client.peer, request.id, client.who.user, std::nullopt};
    if (wait_ms >= 0)
        waiter.until = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(std::min(wait_ms, kWaitMsMax));
    return waiter;
}

// Reads a submission. The user is that of the client's public key.
Result<core::Submit> read_submit(const Identity& who, const protocol::Request& request) {
    JsonReader r(request.args, "submit");
    core::Submit submit;
    submit.key = r.get_or<std::string>("key", "");
    submit.user = r.get_or<std::string>("user", "");
    const Json& spec = r.raw("spec");
    ROLL_TRY_VOID(r.finish_lenient());
    submit.user = acting_user(who, submit.user);
    ROLL_TRY(submit.spec, spec::job_spec_of(spec));
    ROLL_TRY_VOID(spec::check_documents(submit.spec));
    return submit;
}

}  // namespace

std::string acting_user(const Identity& who, const std::string& said) {
    return who.role == Role::Operator && !said.empty() ? said : who.user;
}

std::size_t Server::add(core::Input input) {
    inputs_.push_back(std::move(input));
    return inputs_.size() - 1;
}

// Fails if the user exceeds the rate limit, or if only operators may use the operation.
Result<void> Server::admit(const Client& client, const protocol::Request& request) {
    if (!rate_.take(client.who.user, std::chrono::steady_clock::now())) {
        return fail(ErrorCode::Refused,
                    fmt::format("{} sends more than {} requests a second", client.who.user,
                                rate_.per_second()),
                    "wait a moment, or submit many jobs in one file");
    }
    static constexpr std::array kForOperators = {
        "drain", "undrain", "shutdown", "alloc_add", "alloc_pause", "alloc_resume", "alloc_remove"};
    if (client.who.role != Role::Operator &&
        std::ranges::find(kForOperators, request.op) != kForOperators.end()) {
        return fail(ErrorCode::Refused,
                    fmt::format("{} is only for the user who owns this rolld, not for {}",
                                request.op, client.who.user));
    }
    return {};
}

// Schedules a separate turn with this input after the current one.
void Server::add_later(core::Input input) {
    boost::asio::post(io_, [this, input = std::move(input)] {
        add(input);
        turn();
    });
}

// Refuses a message that is larger than kFrameBytesMax. A worker gets no answer, because an answer
// would acknowledge its heartbeat.
void Server::refuse_large(const Client& client, const io::ZmqMessage& message) {
    if (client.who.role == Role::None) return;
    const std::string& frame = message.frames[1];
    const Error error = protocol::frame_too_large(frame.size());
    const bool is_worker = client.who.role == Role::Worker;
    spdlog::warn("refused a message of {} at {}: {}",
                 is_worker ? "a worker" : "user " + client.who.user,
                 message.address.empty() ? "an unknown address" : message.address, error.message);
    if (!is_worker) reply(client.peer, protocol::request_id(frame), tl::unexpected(error));
}

// Handles one request. The client's input is checked where it is read. Exceptions are nevertheless
// caught here, because no request may end rolld.
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
    ROLL_TRY_VOID(admit(client, request));
    static constexpr std::array kQueries = {"version", "jobs",     "show",       "nodes",
                                            "totals",  "shutdown", "alloc_list", "alloc_dry_run",
                                            "usage",   "report"};
    if (std::ranges::find(kQueries, request.op) != kQueries.end()) {
        Result<Json> answer = query(request);
        // An operator can read the ledger and act for each user, so nothing is hidden from him.
        if (answer && request.op == "show" && client.who.role != Role::Operator)
            query::hide_environment(*answer, client.who.user);
        reply(client.peer, request.id, std::move(answer));
        return {};
    }
    if (request.op == "secret_list") {
        reply(client.peer, request.id, list_secrets(client, request));
        return {};
    }
    return claim(client, request);
}

Result<Json> Server::query(const protocol::Request& request) {
    const core::State& state = engine_.state();
    const Time now = wall_clock_now();
    if (request.op == "jobs") return query::jobs(state, request.args, hearsay(), now);
    if (request.op == "show") return query::show(state, request.args, hearsay(), now);
    if (request.op == "totals") return query::totals(state, now);
    if (request.op == "usage") return query::usage(state, request.args, now);
    if (request.op == "report") return query::report(state, request.args, now);
    if (request.op == "alloc_list") return list_allocations();
    if (request.op == "alloc_dry_run") return dry_run(request);
    if (request.op == "nodes") {
        JsonReader r(request.args, "nodes");
        const auto limit = r.get_or("limit", std::numeric_limits<std::size_t>::max());
        ROLL_TRY_VOID(r.finish_lenient());
        return query::nodes(state, hearsay(), limit);
    }
    if (request.op == "shutdown") {
        boost::asio::post(io_, [this] { stop(); });
        return Json{{"schema", "roll.shutdown/1"}, {"pid", ::getpid()}};
    }
    return Json{{"schema", "roll.version/1"},
                {"version", ROLL_VERSION},
                {"incarnation", state.incarnation},
                {"pid", ::getpid()},
                {"uid", ::geteuid()},
                {"started_at", to_iso8601(started_at_)},
                {"turns", times_->turns.json()},
                {"commits", times_->commits.json()}};
}

// Fails with Refused if one of the jobs belongs to another user.
Result<void> Server::owns(const std::string& user, const std::vector<JobId>& ids) const {
    for (const JobId id : ids) {
        const core::Job& job = engine_.state().jobs.at(id);
        if (job.user == user) continue;
        return fail(ErrorCode::Refused,
                    fmt::format("job {} is {}'s, not {}'s", id.value, job.user, user),
                    "rollctl jobs -a @me");
    }
    return {};
}

// Converts a request to inputs of the core. An error that this function returns is answered at
// once, without a turn of the engine.
Result<void> Server::claim(const Client& client, const protocol::Request& request) {
    if (request.op == "submit") return claim_submit(client, request);
    if (request.op == "forecast") return forecast(client, request);
    if (request.op == "events") return wait_events(client.peer, request);
    if (request.op.starts_with("secret_")) return claim_secret(client, request);
    if (request.op == "checkpoint") return claim_checkpoint(client, request);
    static constexpr std::array kSelecting = {"cancel", "close", "hold", "release", "update"};
    if (std::ranges::find(kSelecting, request.op) != kSelecting.end())
        return claim_each(client, request);
    if (request.op == "progress") return claim_progress(client, request);
    if (request.op.starts_with("alloc_")) return claim_queue(client, request);
    if (request.op == "drain" || request.op == "undrain") return claim_drain(client, request);
    return fail(ErrorCode::InvalidArgument, "rolld knows no operation " + request.op,
                "rollctl and rolld may be of different versions; see `rollctl version`");
}

// Drains one node. Without `node`, stops dispatch to all nodes, also to those that join later.
Result<void> Server::claim_drain(const Client& client, const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    const auto node = r.get_or<std::string>("node", "");
    const auto why = r.get_or<std::string>("message", "stopped by " + client.who.user);
    ROLL_TRY_VOID(r.finish_lenient());
    const bool draining = request.op == "drain";
    std::size_t input = 0;
    if (node.empty())
        input =
            add(core::StopDispatch{draining ? std::optional(why) : std::nullopt, client.who.user});
    else
        input = add(core::Drain{node, draining, client.who.user});
    asked_.push_back(
        {{input}, client.peer, request.id, [node, draining](bool) {
             return Json{{"schema", "roll.node/1"}, {"node", node}, {"draining", draining}};
         }});
    return {};
}

Result<void> Server::claim_submit(const Client& client, const protocol::Request& request) {
    ROLL_TRY(core::Submit submit, read_submit(client.who, request));
    if (submit.key.empty() || submit.key.size() > protocol::kKeyBytesMax) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the key of a submit has {} bytes; allowed: 1 to {}",
                                submit.key.size(), protocol::kKeyBytesMax));
    }
    const std::string user = submit.user;
    if (request.args.value("strict", false))
        ROLL_TRY_VOID(query::refuse_never(engine_.state(), submit, wall_clock_now()));
    const std::string key = submit.key;
    const auto known = engine_.state().keys.find(user);
    if (known == engine_.state().keys.end() || !known->second.contains(key))
        ROLL_TRY_VOID(outputs_.check(engine_.state(), submit.spec, user + " " + key));
    const std::size_t jobs = count_jobs(submit.spec);
    const std::size_t input = add(std::move(submit));
    asked_.push_back(
        {{input}, client.peer, request.id, [this, user, key, jobs](bool changed) {
             const core::State& state = engine_.state();
             const JobId id = state.keys.at(user).at(key);
             const core::Job& job = state.jobs.at(id);
             for (std::size_t task = 0; changed && task < jobs; ++task) {
                 const JobId one{id.value + task};
                 outputs_.note(one, state.jobs.at(one));
             }
             Json reply{{"schema", "roll.submit/1"}, {"id", id.value}, {"name", job.spec.name},
                        {"output", job.spec.output}, {"jobs", jobs},   {"repeated", !changed}};
             if (const auto hold = query::never(state, id, wall_clock_now()))
                 reply["cannot_run"] = {{"why", hold->why}, {"remedy", hold->remedy}};
             return reply;
         }});
    return {};
}

// Replies with the forecast of a submission, and with the commands of the allocation order that it
// would cause.
Result<void> Server::forecast(const Client& client, const protocol::Request& request) {
    ROLL_TRY(core::Submit submit, read_submit(client.who, request));
    // A key that the ledger already knows would make this a repeated submission, which changes
    // nothing.
    submit.key.clear();
    ROLL_TRY(Json told, query::forecast(engine_.state(), submit, wall_clock_now()));
    if (told["orders"].is_string()) {
        ROLL_TRY(told["order"], dry_run({0, "", {{"queue", told["orders"]}}}));
    }
    reply(client.peer, request.id, told);
    return {};
}

// Requests a checkpoint. Replies with the attempt and the request's number. `show` displays whether
// a checkpoint that answers this request is recorded.
Result<void> Server::claim_checkpoint(const Client& client, const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    const JobId id{r.get<std::uint64_t>("id")};
    ROLL_TRY_VOID(r.finish_lenient());
    if (client.who.role != Role::Operator && engine_.state().jobs.contains(id))
        ROLL_TRY_VOID(owns(client.who.user, {id}));
    const std::size_t input = add(core::AskCheckpoint{id, client.who.user});
    asked_.push_back({{input}, client.peer, request.id, [this, id](bool) {
                          const auto& attempt = engine_.state().jobs.at(id).attempt;
                          Json reply = {{"schema", "roll.asked/1"}, {"id", id.value}};
                          reply["token"] = attempt ? Json(to_string(attempt->token)) : Json();
                          reply["asked"] = attempt ? attempt->asked : 0;
                          return reply;
                      }});
    return {};
}

Result<void> Server::claim_each(const Client& client, const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    const auto selector = r.get<std::string>("selector");
    const auto user = r.get_or<std::string>("me", "");
    const auto reason = r.get_or<std::string>("reason", "");
    const bool first = r.get_or("first", false);
    const bool has_priority = first || r.has("priority");
    auto priority = r.get_or("priority", 0);
    const bool has_begin = r.has("begin");
    const Time begin{std::chrono::milliseconds(r.get_or<std::int64_t>("begin", 0))};
    const auto wait_ms = r.get_or("wait_ms", -1);
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(const auto ids, query::select(engine_.state(), selector, user));
    if (client.who.role != Role::Operator) ROLL_TRY_VOID(owns(client.who.user, ids));
    if (first) priority = query::priority_before(engine_.state(), ids);
    Many many{.waiter = waiter_of(client, request, wait_ms)};
    std::vector<JobId> over;
    for (const JobId id : ids) {
        const bool is_over = core::is_over(engine_.state().jobs.at(id).phase);
        (is_over ? over : many.jobs).push_back(id);
    }
    many.answer = changed_json(request.op, many.jobs, over);
    // Process the newest job first. Otherwise a job that is about to be cancelled could start in
    // place of a cancelled one.
    if (request.op == "cancel" || request.op == "hold") std::ranges::reverse(many.jobs);
    many.add_inputs = [=, op = request.op, by = client.who.user](JobId id,
                                                                 std::vector<core::Input>& inputs) {
        if (op == "cancel") inputs.push_back(core::Cancel{id, reason, by});
        if (op == "close") inputs.push_back(core::Close{id, by});
        if (op == "hold") inputs.push_back(core::Hold{id, true, by});
        if (op == "release") inputs.push_back(core::Hold{id, false, by});
        if (op != "update") return;
        if (has_priority) inputs.push_back(core::SetPriority{id, priority, by});
        if (has_begin) inputs.push_back(core::SetBegin{id, begin, by});
    };
    shares_.ask(std::move(many));
    return {};
}

// Replies with the result of a bulk request, or with its progress if it is not done when the wait
// ends.
Result<void> Server::claim_progress(const Client& client, const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    const auto ticket = r.get<std::uint64_t>("ticket");
    const auto wait_ms = r.get_or("wait_ms", 0);
    ROLL_TRY_VOID(r.finish_lenient());
    return shares_.ask_again(ticket, waiter_of(client, request, wait_ms));
}

Result<void> Server::wait_events(const Peer& peer, const protocol::Request& request) {
    JsonReader r(request.args, "events");
    Waiting waiting;
    waiting.peer = peer;
    waiting.id = request.id;
    waiting.since = r.get_or<std::int64_t>("since", 0);
    waiting.limit = std::clamp(r.get_or("limit", 1000), 1, kEventsMax);
    const auto wait_ms = std::clamp(r.get_or("wait_ms", 0), 0, kWaitMsMax);
    const auto id = r.get_or<std::uint64_t>("id", 0);
    const auto newest = r.get_or<std::int64_t>("newest", 0);
    ROLL_TRY_VOID(r.finish_lenient());
    if (newest > 0) waiting.since = std::max(waiting.since, ledger_->newest() - newest);
    if (id != 0) {
        waiting.job = JobId{id};
        if (!engine_.state().jobs.contains(*waiting.job)) {
            return fail(ErrorCode::NotFound, "there is no job " + std::to_string(id),
                        "rollctl jobs -a");
        }
    }
    waiting.until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
    const auto rows = ledger_->read(waiting.since, waiting.limit, waiting.job);
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty() && wait_ms > 0) {
        waiting_.push_back(std::move(waiting));
        return {};
    }
    reply(peer, request.id, query::events(*rows, waiting.since));
    return {};
}

}  // namespace roll::server
