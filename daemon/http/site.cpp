#include "daemon/http/site.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "common/protocol/allocation_operations.hpp"
#include "common/protocol/client.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/protocol/scope.hpp"
#include "common/protocol/token_operations.hpp"
#include "common/protocol/view_operations.hpp"
#include "common/split.hpp"
#include "daemon/http/exposition.hpp"
#include "daemon/http/log_position.hpp"
#include "daemon/http/openapi.hpp"
#include "daemon/http/page.hpp"
#include "daemon/http/parameters.hpp"

namespace roll::http {
namespace {

constexpr int kRunningMax = 1000;       // maximum number of running jobs in /metrics
constexpr std::size_t kWatchedMax = 8;  // maximum number of answers that a stream watches

struct PageFile {
    std::string_view path;
    std::string_view name;
    const char* type;
};
constexpr const char* kScript = "text/javascript; charset=utf-8";
constexpr std::array kPageFiles = {PageFile{"/", "index.html", "text/html; charset=utf-8"},
                                   PageFile{"/style.css", "style.css", "text/css; charset=utf-8"},
                                   PageFile{"/app.js", "app.js", kScript},
                                   PageFile{"/base.js", "base.js", kScript},
                                   PageFile{"/live.js", "live.js", kScript},
                                   PageFile{"/chart.js", "chart.js", kScript},
                                   PageFile{"/actions.js", "actions.js", kScript},
                                   PageFile{"/queue.js", "queue.js", kScript},
                                   PageFile{"/job.js", "job.js", kScript},
                                   PageFile{"/log.js", "log.js", kScript},
                                   PageFile{"/sweeps.js", "sweeps.js", kScript},
                                   PageFile{"/usage.js", "usage.js", kScript},
                                   PageFile{"/cluster.js", "cluster.js", kScript}};

Reply text_reply(int status, const char* type, std::string text) {
    return {status, type, std::make_shared<const std::string>(std::move(text))};
}

// Makes a reply that shares the answer's text instead of copying it.
Reply json_reply(const std::shared_ptr<const Answer>& answer) {
    return {200, "application/json", std::shared_ptr<const std::string>(answer, &answer->text)};
}

int status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument: return 400;
        case ErrorCode::NotFound: return 404;
        case ErrorCode::Refused: return 409;
        case ErrorCode::Unavailable: return 503;
        case ErrorCode::Corrupt:
        case ErrorCode::Failed: return 500;
    }
    return 500;
}

Reply refusal(int status, std::string message, std::string hint = {}) {
    Reply reply = error_reply({ErrorCode::Refused, std::move(message), std::move(hint)});
    reply.status = status;
    return reply;
}

// Compares two texts in a time that does not depend on where they differ.
bool is_same_secret(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

Result<std::uint64_t> job_id(const std::string& text) {
    std::uint64_t id = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the job is {}; allowed: a job number", text.substr(0, 60)));
    return id;
}

// Returns the field `reason` of a request's body.
Result<std::string> read_reason(const Json& body) {
    const Json reason = body.value("reason", Json(""));
    if (reason.is_string()) return reason.get<std::string>();
    return fail(ErrorCode::InvalidArgument,
                fmt::format("reason is {}; allowed: a text", dump(reason).substr(0, 60)));
}

// Returns the reply that streams the answers to the targets in the parameter `watch`, such as
// "jobs?limit=5 totals". The targets are separated by spaces and relative to /api/v1/.
Result<Reply> stream_reply(const Target& target) {
    ROLL_TRY(const StreamArgs args, read_query_as<StreamArgs>(target));
    Reply reply{200, "text/event-stream", std::make_shared<const std::string>()};
    for (std::string_view rest = args.watch; !rest.empty();) {
        const std::size_t end = rest.find(' ');
        const std::string_view one = rest.substr(0, end);
        if (one.starts_with("stream"))
            return fail(ErrorCode::InvalidArgument, "a stream cannot contain another stream");
        // An answer with metrics or a pipeline takes long to compute, and would delay all other
        // answers of the stream.
        for (const char* part : {"/metrics", "/pipeline"})
            if (one.find(part) != std::string_view::npos)
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("a stream cannot watch {}; request it instead", one));
        if (is_log(one)) {
            if (std::ranges::any_of(reply.watched, is_log))
                return fail(ErrorCode::InvalidArgument, "a stream can watch only one log",
                            "open another stream");
            if (one.find("from=") != std::string_view::npos)
                return fail(ErrorCode::InvalidArgument,
                            "a stream sends only text that is added to a log; leave out `from`",
                            "request the earlier text with GET /api/v1/jobs/ID/log");
        }
        if (!one.empty()) reply.watched.push_back(fmt::format("/api/v1/{}", one));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    if (reply.watched.empty() || reply.watched.size() > kWatchedMax)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("watch names {} targets; allowed: 1 to {}", reply.watched.size(),
                                kWatchedMax),
                    "for example stream?watch=jobs%3Flimit=5+totals");
    return reply;
}

// Returns rows of metrics with only the fields in `keys`, which are separated by commas. Leaves out
// rows that have none of these fields besides `step`.
Json rows_with(const Json& rows, const std::string& keys) {
    const std::vector<std::string> names = split_at(keys, ',');
    Json kept = Json::array();
    for (const Json& row : rows) {
        Json one = Json::object();
        bool tells = false;
        for (const std::string& key : names) {
            const auto field = row.find(key);
            if (field == row.end()) continue;
            one[key] = *field;
            tells |= key != "step";
        }
        if (tells) kept.push_back(std::move(one));
    }
    return kept;
}

Reply another_users(std::uint64_t id) {
    return refusal(403, fmt::format("job {} is another user's; its files are not shown", id));
}

tl::unexpected<Error> nothing_there() {
    return fail(ErrorCode::NotFound, "there is nothing at this address",
                "see docs/web.md for the addresses");
}

}  // namespace

Reply error_reply(const Error& error) {
    return text_reply(status_of(error.code), "application/json",
                      dump(protocol::error_json(error)) + "\n");
}

Reply too_many(const Error& error, const char* limit, std::chrono::milliseconds wait) {
    Json told = protocol::error_json(error);
    told["error"]["limit"] = limit;
    Reply reply = text_reply(429, "application/json", dump(told) + "\n");
    reply.retry_after_s = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(wait).count());
    return reply;
}

Reply Site::answer(const Request& request, bool counts) {
    if (request.host.empty()) return refusal(400, "the request has no header Host");
    if (std::ranges::find(options_.hosts, request.host) == options_.hosts.end())
        return refusal(
            403, fmt::format("this server does not serve the host {}", request.host.substr(0, 100)),
            "add the name to http.hosts in rolld.yaml, and start roll-web again");
    // Accept an https origin even without TLS, because a proxy may serve the page over https.
    const bool own = request.origin == "https://" + request.host ||
                     (!options_.tls && request.origin == "http://" + request.host);
    if (!request.origin.empty() && !own)
        return refusal(403, "pages of other sites may not send requests to roll-web");
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (!reads && request.method != "POST")
        return refusal(405, "the method is not GET, HEAD or POST");
    // Ignore the query of a page's address: programs that pass an address on may add a query.
    const std::string_view path =
        std::string_view(request.target).substr(0, request.target.find('?'));
    for (const PageFile& file : kPageFiles) {
        if (!reads || path != file.path) continue;
        if (auto refused = take_address(request)) return *std::move(refused);
        return text_reply(200, file.type, std::string(page_file(file.name)));
    }
    return guarded(request, counts);
}

// Counts a request of the client. Returns a refusal if the client has sent too many requests.
std::optional<Reply> Site::take(const std::string& client) {
    const auto wait = rate_.take(client, std::chrono::steady_clock::now());
    if (!wait) return std::nullopt;
    return too_many({ErrorCode::Refused,
                     fmt::format("this client sends too many requests; allowed: {} a second",
                                 rate_.per_second()),
                     "send fewer requests, watch answers with /api/v1/stream, or raise "
                     "http.requests_per_second in rolld.yaml"},
                    "requests", *wait);
}

// Counts a request without a valid token as a request of the client's address.
std::optional<Reply> Site::take_address(const Request& request) {
    return take("address " + client_of_address(request.address));
}

// Answers a request that must present a token. Counts the request for its token and address if the
// token is valid, else for its address. Several people may share a token, so the requests of each
// of their addresses are counted separately. A token that was not valid a short time ago is sent to
// rolld only if the address may still send requests. Made-up tokens therefore cannot keep rolld
// busy.
Reply Site::guarded(const Request& request, bool counts) {
    const std::string client =
        fmt::format("token {} {}", request.authorization, client_of_address(request.address));
    const bool known = !counts || rate_.knows(client);
    if (auto refused = known ? std::nullopt : take_address(request)) return *std::move(refused);
    auto visitor = visitor_of(request.authorization);
    if (!visitor && visitor.error().code == ErrorCode::Unavailable)
        return error_reply(visitor.error());
    if (!visitor) return refusal(401, visitor.error().message, visitor.error().hint);
    if (auto refused = counts ? take(client) : std::nullopt) return *std::move(refused);
    if (request.method == "POST" && request.action.empty())
        return refusal(403, "a POST request needs the header X-Roll-Action",
                       "curl -H 'X-Roll-Action: 1' -X POST ...");
    const auto target = parse_target(request.target);
    if (!target) return error_reply(target.error());
    auto reply = api(*visitor, request, *target);
    return reply ? *std::move(reply) : error_reply(reply.error());
}

// Returns the rights of the token's bearer. roll-web sends its requests to rolld with its own key.
// The bearer of the token in the state directory has all rights of that key. rolld checks any other
// token and says which rights it gives.
Result<Site::Visitor> Site::visitor_of(std::string_view authorization) {
    constexpr std::string_view kBearer = "Bearer ";
    constexpr std::string_view kToken = "roll_";
    constexpr std::size_t kTokenBytesMax = 200;
    const auto refused = [] {
        return fail(ErrorCode::Refused, "the request has no valid token",
                    "open the address that `rollctl web` prints, or make a token with `rollctl "
                    "token create`");
    };
    if (!authorization.starts_with(kBearer)) return refused();
    const std::string_view given = authorization.substr(kBearer.size());
    if (is_same_secret(given, options_.token)) return Visitor{};
    if (!given.starts_with(kToken) || given.size() > kTokenBytesMax) return refused();
    Visitor visitor{.token = std::string(given)};
    const auto told = ask(visitor, protocol::WhoamiArgs{});
    if (!told && told.error().code == ErrorCode::Unavailable) return tl::unexpected(told.error());
    if (!told) return refused();
    const auto access = protocol::access_of_scope((*told)->json.value("scope", ""));
    if (!access) return refused();
    visitor.access = *access;
    visitor.user = (*told)->json.value("user", "");
    visitor.is_operator = (*told)->json.value("operator", false);
    return visitor;
}

Site::Answered Site::send(const Visitor& visitor, const protocol::Operation& operation,
                          const Json& args) {
    const bool reads = operation.access == protocol::Access::Read;
    const auto put = [&](const std::string& op, const Json& json) {
        return reads ? rolld_.look(op, json) : rolld_.change(op, json);
    };
    if (visitor.token.empty()) return put(operation.name, args);
    const protocol::WithTokenArgs wrapped{visitor.token, operation.name, args};
    return put(protocol::WithTokenArgs::kOperation.name, protocol::arguments_json(wrapped));
}

template <class Args>
Site::Answered Site::ask(const Visitor& visitor, const Args& args) {
    return send(visitor, Args::kOperation, protocol::arguments_json(args));
}

// Sends the operation to rolld if the visitor may call it.
Result<Reply> Site::serve(const Visitor& visitor, const protocol::Operation& operation,
                          const Json& args) {
    if (options_.read_only && operation.access != protocol::Access::Read)
        return refusal(403, "this server was started with --read-only");
    if (operation.access > visitor.access)
        return refusal(403,
                       fmt::format("the token's scope is {}; {} needs a token of a higher scope",
                                   protocol::scope_of_access(visitor.access), operation.name),
                       "rollctl token create --scope operate");
    ROLL_TRY(const auto answer, send(visitor, operation, args));
    return json_reply(answer);
}

// Answers a request whose address is in the table of routes, or names an operation of rolld.
Result<Reply> Site::api(const Visitor& visitor, const Request& request, const Target& target) {
    const std::vector<std::string>& path = target.path;
    const bool posts = request.method == "POST";
    if (const auto match = find_route(path, posts)) {
        if (match->route == nullptr)
            return refusal(405, posts ? "this address changes nothing; send it with GET"
                                      : "this address changes something; send it with POST");
        return routed(visitor, request, target, *match);
    }
    if (path.size() != 3 || path[0] != "api" || path[1] != "v1") return nothing_there();
    const protocol::OperationInfo* info = protocol::find_operation(path[2]);
    if (info == nullptr || !is_served(*info->operation)) return nothing_there();
    if (!posts && info->operation->access != protocol::Access::Read)
        return refusal(405, fmt::format("{} changes something; send it with POST", path[2]));
    if (posts) ROLL_TRY_VOID(read_query(target, {}));
    ROLL_TRY(const Json args,
             posts ? arguments_of_body(request.body, *info) : arguments_of_query(target, *info));
    return serve(visitor, *info->operation, args);
}

Result<Reply> Site::routed(const Visitor& visitor, const Request& request, const Target& target,
                           const RouteMatch& match) {
    const Route& route = *match.route;
    const auto fields = route.fields();
    ROLL_TRY_VOID(read_query(target, route.posts ? protocol::fields_of<NoArgs>() : fields));
    Json body;
    if (route.posts) {
        ROLL_TRY(body, read_body(request.body, fields));
    }
    std::uint64_t id = 0;
    if (!match.id.empty()) {
        ROLL_TRY(id, job_id(match.id));
    }
    const auto send_change = [&](const auto& args) {
        return serve(visitor, args.kOperation, protocol::arguments_json(args));
    };
    const protocol::Selection selection{.selector = std::to_string(id)};
    switch (route.page) {
        case Page::Session: return session(visitor);
        case Page::Stream: return stream_reply(target);
        case Page::OpenApi: return text_reply(200, route.type, openapi().dump(2) + "\n");
        case Page::Metrics: return metrics(visitor, route.type);
        case Page::Allocations: return send_change(protocol::AllocListArgs{});
        case Page::Job: return send_change(protocol::ShowArgs{.id = id});
        case Page::JobLog: return job_log(visitor, target, id);
        case Page::JobMetrics: return job_metrics(visitor, target, id);
        case Page::JobSweep: return sweep(visitor, id);
        case Page::JobPipeline: return pipeline(visitor, id);
        case Page::JobCancel: {
            ROLL_TRY(std::string reason, read_reason(body));
            return send_change(protocol::CancelArgs{selection, std::move(reason)});
        }
        case Page::JobHold: return send_change(protocol::HoldArgs{selection});
        case Page::JobRelease: return send_change(protocol::ReleaseArgs{selection});
        case Page::JobCheckpoint: return send_change(protocol::CheckpointArgs{.id = id});
    }
    return nothing_there();
}

// Returns roll.session/1: the rights of the request's token.
Result<Reply> Site::session(const Visitor& visitor) {
    ROLL_TRY(const auto told, ask(visitor, protocol::WhoamiArgs{}));
    const Json session = {
        {"schema", "roll.session/1"},
        {"user", told->json.value("user", "")},
        {"operator", told->json.value("operator", false)},
        {"scope", protocol::scope_of_access(visitor.access)},
        {"read_only", options_.read_only},
    };
    return text_reply(200, "application/json", dump(session) + "\n");
}

// Returns the reply to `show`; null if the visitor may not see the files of the job's user.
Site::Answered Site::own_job(const Visitor& visitor, std::uint64_t id) {
    ROLL_TRY(auto shown, ask(visitor, protocol::ShowArgs{.id = id}));
    const bool own = shown->json.at("job").value("user", "") == visitor.user;
    return visitor.is_operator || own ? std::move(shown) : nullptr;
}

// Returns the schedule of the job's pipeline. roll-rank reads the files that the job names, so the
// visitor must be allowed to see the user's files.
Result<Reply> Site::pipeline(const Visitor& visitor, std::uint64_t id) {
    ROLL_TRY(const auto shown, own_job(visitor, id));
    if (!shown) return another_users(id);
    Json document = shown->json.at("job").value("spec", Json());
    // Remove the later jobs of the chain. If they belong to another user, the values of `env` in
    // these jobs are hidden, and the document would not be valid.
    if (document.is_object()) document.erase("then");
    ROLL_TRY(auto text, pipelines_.of(id, document));
    return Reply{200, "application/json", std::move(text)};
}

// Returns the document roll.sweep/1 of the sweep to which the job belongs.
Result<Reply> Site::sweep(const Visitor& visitor, std::uint64_t id) {
    ROLL_TRY(const auto trial, ask(visitor, protocol::ShowArgs{.id = id}));
    const Json array = trial->json.at("job").value("array", Json());
    const std::uint64_t first = array.is_object() ? array.value("job", id) : id;
    ROLL_TRY(const auto shown, own_job(visitor, first));
    if (!shown) return another_users(id);
    const Json& job = shown->json.at("job");
    const std::size_t trials = std::max<std::size_t>(trials_of(job), 1);
    const protocol::JobsArgs args{
        .selector = fmt::format("{}-{}", first, first + trials - 1),
        .fields = {"id", "state", "reason", "output", "array", "progress"}};
    ROLL_TRY(const auto jobs, ask(visitor, args));
    const ReadPart read_part = [this](const std::string& output, std::uint64_t from) {
        return files_.look("metrics_part", {{"output", output}, {"from", from}})
            .map([](const auto& answer) { return answer->json; });
    };
    ROLL_TRY(const Json sweep,
             sweep_json(job, jobs->json.value("jobs", Json::array()),
                        [&](const std::string& output, const std::string& metric, bool maximize) {
                            return trials_.read(output, metric, maximize, read_part);
                        }));
    return text_reply(200, "application/json", dump(sweep) + "\n");
}

// Returns a part of a job's log. roll-web reads files with its own rights, so it shows the bearer
// of a user's token only the files of that user's jobs.
Result<Reply> Site::job_log(const Visitor& visitor, const Target& target, std::uint64_t id) {
    ROLL_TRY(const LogArgs asked, read_query_as<LogArgs>(target));
    ROLL_TRY(const auto shown, own_job(visitor, id));
    if (!shown) return another_users(id);
    const Json& job = shown->json.at("job");
    Json args = {{"output", job.value("output", "")},
                 {"attempt", asked.attempt.value_or(job.value("attempt", std::uint32_t{1}))},
                 {"rank", asked.rank}};
    const Json document = job.value("spec", Json());
    for (const char* key : {"stdout", "workdir", "name", "sbatch"})
        if (document.is_object() && document.contains(key)) args[key] = document[key];
    if (asked.from) args["from"] = *asked.from;
    ROLL_TRY(const auto answer, files_.look("log", args));
    return json_reply(answer);
}

// Returns rows of a job's metrics, with the same restriction as job_log().
Result<Reply> Site::job_metrics(const Visitor& visitor, const Target& target, std::uint64_t id) {
    ROLL_TRY(const MetricsArgs asked, read_query_as<MetricsArgs>(target));
    ROLL_TRY(const auto shown, own_job(visitor, id));
    if (!shown) return another_users(id);
    const Json args = {{"output", shown->json.at("job").value("output", "")},
                       {"points", asked.points}};
    ROLL_TRY(const auto answer, files_.look("metrics", args));
    if (asked.keys.empty()) return json_reply(answer);
    Json reply = answer->json;
    reply["rows"] = rows_with(answer->json.at("rows"), asked.keys);
    return text_reply(200, "application/json", dump(reply) + "\n");
}

Reply Site::metrics(const Visitor& visitor, const char* type) {
    const auto totals = ask(visitor, protocol::TotalsArgs{});
    const auto version = ask(visitor, protocol::VersionArgs{});
    const auto running =
        ask(visitor, protocol::JobsArgs{.state = "running",
                                        .limit = kRunningMax,
                                        .fields = {"id", "name", "user", "progress", "ettr"}});
    if (!totals || !version || !running) return text_reply(200, type, exposition_of_silence());
    return text_reply(200, type, exposition((*totals)->json, (*version)->json, (*running)->json));
}

}  // namespace roll::http
