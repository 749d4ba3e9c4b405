#include "daemon/http/site.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "common/protocol/client.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/protocol/scope.hpp"
#include "common/protocol/token_operations.hpp"
#include "common/protocol/view_operations.hpp"
#include "daemon/http/exposition.hpp"
#include "daemon/http/job_files.hpp"
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

// Returns the field `reason` of a request's body; empty if the body is empty.
Result<std::string> reason_of(const std::string& body) {
    if (body.empty()) return std::string();
    ROLL_TRY(const Json json, parse_json(body, 4));
    JsonReader r(json, "the request's body");
    auto reason = r.get_or<std::string>("reason", "");
    ROLL_TRY_VOID(r.finish());
    return reason;
}

// Returns the reply that streams the answers to the targets in the parameter `watch`, such as
// "jobs?limit=5 totals". The targets are separated by spaces and relative to /api/v1/.
Result<Reply> stream_reply(const Target& target) {
    ROLL_TRY_VOID(only(target, {"watch"}));
    const auto watch = target.query.find("watch");
    const std::string targets = watch == target.query.end() ? "" : watch->second;
    Reply reply{200, "text/event-stream", std::make_shared<const std::string>()};
    for (std::string_view rest = targets; !rest.empty();) {
        const std::size_t end = rest.find(' ');
        const std::string_view one = rest.substr(0, end);
        if (one.starts_with("stream"))
            return fail(ErrorCode::InvalidArgument, "a stream cannot contain another stream");
        // Computing one of these answers takes long, and would delay all other answers of the
        // stream.
        for (const char* part : {"/log", "/metrics", "/pipeline"})
            if (one.find(part) != std::string_view::npos)
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("a stream cannot watch {}; request it instead", one));
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
    Json kept = Json::array();
    for (const Json& row : rows) {
        Json one = Json::object();
        bool tells = false;
        for (std::string_view rest = keys; !rest.empty();) {
            const std::size_t end = rest.find(',');
            const std::string key(rest.substr(0, end));
            rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
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

Reply Site::answer(const Request& request) {
    if (std::ranges::find(options_.hosts, request.host) == options_.hosts.end())
        return refusal(
            403, fmt::format("this server does not serve the host {}", request.host.substr(0, 100)),
            "add the name to http.hosts in rolld.yaml, and start roll-web again");
    // Accept an https origin even without TLS, because a proxy may serve the page over https.
    const bool own = request.origin == "https://" + request.host ||
                     (!options_.tls && request.origin == "http://" + request.host);
    if (!request.origin.empty() && !own)
        return refusal(403, "pages of other sites may not send requests to this server");
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (!reads && request.method != "POST")
        return refusal(405, "the method is not GET, HEAD or POST");
    // Programs that pass on an address may add a query to it, which the page ignores.
    const std::string_view path =
        std::string_view(request.target).substr(0, request.target.find('?'));
    for (const PageFile& file : kPageFiles)
        if (reads && path == file.path)
            return text_reply(200, file.type, std::string(page_file(file.name)));
    return guarded(request);
}

// Answers a request that must present a token.
Reply Site::guarded(const Request& request) {
    auto visitor = visitor_of(request.authorization);
    if (!visitor && visitor.error().code == ErrorCode::Unavailable)
        return error_reply(visitor.error());
    if (!visitor) return refusal(401, visitor.error().message, visitor.error().hint);
    if (request.method == "POST" && request.action.empty())
        return refusal(403, "a POST request needs the header X-Roll-Action",
                       "curl -H 'X-Roll-Action: 1' -X POST ...");
    const auto target = parse_target(request.target);
    if (!target) return error_reply(target.error());
    if (target->path == std::vector<std::string>{"metrics"} && request.method != "POST")
        return metrics(*visitor);
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

Result<Reply> Site::api(const Visitor& visitor, const Request& request, const Target& target) {
    const std::vector<std::string>& path = target.path;
    if (path.size() < 3 || path[0] != "api" || path[1] != "v1") return nothing_there();
    if (path[2] == "jobs" && path.size() > 3) return job(visitor, request, target);
    if (path.size() > 3) return nothing_there();
    const bool posts = request.method == "POST";
    if (path[2] == "session" && !posts) return session(visitor);
    if (path[2] == "stream" && !posts) return stream_reply(target);
    if (path[2] == "openapi.json" && !posts)
        return text_reply(200, "application/json", openapi().dump(2) + "\n");
    const std::string name = path[2] == "allocations" ? "alloc_list" : path[2];
    const protocol::OperationInfo* info = protocol::find_operation(name);
    if (info == nullptr || !is_served(*info->operation)) return nothing_there();
    if (!posts && info->operation->access != protocol::Access::Read)
        return refusal(405, fmt::format("{} changes something; send it with POST", name));
    if (posts) ROLL_TRY_VOID(only(target, {}));
    ROLL_TRY(const Json args,
             posts ? arguments_of_body(request.body, *info) : arguments_of_query(target, *info));
    return serve(visitor, *info->operation, args);
}

Result<Reply> Site::job(const Visitor& visitor, const Request& request, const Target& target) {
    ROLL_TRY(const std::uint64_t id, job_id(target.path[3]));
    const std::size_t size = target.path.size();
    if (request.method == "POST") {
        if (size != 5) return nothing_there();
        ROLL_TRY_VOID(only(target, {}));
        return change_job(visitor, request, id, target.path[4]);
    }
    if (size == 5 && (target.path[4] == "log" || target.path[4] == "metrics"))
        return job_file(visitor, target, target.path[4]);
    const std::string part = size == 5 ? target.path[4] : "";
    if (size != 4 && part != "sweep" && part != "pipeline") return nothing_there();
    ROLL_TRY_VOID(only(target, {}));
    if (part == "sweep") return sweep(visitor, id);
    if (part == "pipeline") return pipeline(visitor, id);
    return serve(visitor, protocol::ShowArgs::kOperation,
                 protocol::arguments_json(protocol::ShowArgs{.id = id}));
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

// Returns the schedule of the job's pipeline. roll-rank reads the files that the job names.
Result<Reply> Site::pipeline(const Visitor& visitor, std::uint64_t id) {
    ROLL_TRY(const auto shown, own_job(visitor, id));
    if (!shown) return another_users(id);
    ROLL_TRY(auto text, pipelines_.of(id, shown->json.at("job").value("spec", Json())));
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

// Changes one job. The body is empty, or an object with `reason`.
Result<Reply> Site::change_job(const Visitor& visitor, const Request& request, std::uint64_t id,
                               const std::string& op) {
    auto reason = reason_of(request.body);
    if (!reason) return fail(ErrorCode::InvalidArgument, reason.error().message);
    const auto send_change = [&](const auto& args) {
        return serve(visitor, args.kOperation, protocol::arguments_json(args));
    };
    const protocol::Selection selection{.selector = std::to_string(id)};
    if (op == "cancel") return send_change(protocol::CancelArgs{selection, *std::move(reason)});
    if (op == "hold") return send_change(protocol::HoldArgs{selection});
    if (op == "release") return send_change(protocol::ReleaseArgs{selection});
    if (op == "checkpoint") return send_change(protocol::CheckpointArgs{.id = id});
    return nothing_there();
}

// Returns a part of a job's log or of its metrics. roll-web reads files with its own rights, so it
// shows the bearer of a user's token only the files of that user's jobs.
Result<Reply> Site::job_file(const Visitor& visitor, const Target& target,
                             const std::string& kind) {
    ROLL_TRY(const std::uint64_t id, job_id(target.path[3]));
    ROLL_TRY(const auto shown, own_job(visitor, id));
    if (!shown) return another_users(id);
    const Json& job = shown->json.at("job");
    Json args = {{"output", job.value("output", "")}};
    if (kind == "metrics") {
        ROLL_TRY_VOID(only(target, {"points", "keys"}));
        ROLL_TRY(const auto points, number<int>(target, "points"));
        args["points"] = points.value_or(kPointsMax);
    } else {
        ROLL_TRY_VOID(only(target, {"rank", "attempt", "from"}));
        ROLL_TRY(const auto rank, number<std::uint32_t>(target, "rank"));
        ROLL_TRY(const auto attempt, number<std::uint32_t>(target, "attempt"));
        ROLL_TRY(const auto from, number<std::uint64_t>(target, "from"));
        const Json document = job.value("spec", Json());
        for (const char* key : {"stdout", "workdir", "name", "sbatch"})
            if (document.is_object() && document.contains(key)) args[key] = document[key];
        args["attempt"] = attempt.value_or(job.value("attempt", std::uint32_t{1}));
        args["rank"] = rank.value_or(0);
        if (from) args["from"] = *from;
    }
    ROLL_TRY(const auto answer, files_.look(kind, args));
    const auto keys = target.query.find("keys");
    if (keys == target.query.end()) return json_reply(answer);
    Json reply = answer->json;
    reply["rows"] = rows_with(answer->json.at("rows"), keys->second);
    return text_reply(200, "application/json", dump(reply) + "\n");
}

Reply Site::metrics(const Visitor& visitor) {
    constexpr const char* kType = "text/plain; version=0.0.4; charset=utf-8";
    const auto totals = ask(visitor, protocol::TotalsArgs{});
    const auto version = ask(visitor, protocol::VersionArgs{});
    const auto running =
        ask(visitor, protocol::JobsArgs{.state = "running",
                                        .limit = kRunningMax,
                                        .fields = {"id", "name", "user", "progress", "ettr"}});
    if (!totals || !version || !running) return text_reply(200, kType, exposition_of_silence());
    return text_reply(200, kType, exposition((*totals)->json, (*version)->json, (*running)->json));
}

}  // namespace roll::http
