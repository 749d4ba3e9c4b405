#include "daemon/http/site.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "common/protocol/client.hpp"
#include "common/protocol/cluster_operations.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/protocol/view_operations.hpp"
#include "daemon/http/exposition.hpp"
#include "daemon/http/job_files.hpp"
#include "daemon/http/page.hpp"

namespace roll::http {
namespace {

constexpr int kRunningMax = 1000;  // maximum number of running jobs in /metrics

struct PageFile {
    std::string_view path;
    std::string_view name;
    const char* type;
};
constexpr std::array kPageFiles = {PageFile{"/", "index.html", "text/html; charset=utf-8"},
                                   PageFile{"/style.css", "style.css", "text/css; charset=utf-8"},
                                   PageFile{"/app.js", "app.js", "text/javascript; charset=utf-8"}};

Reply text_reply(int status, const char* type, std::string text) {
    return {status, type, std::make_shared<const std::string>(std::move(text))};
}

// Shares the answer's text instead of copying it.
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

// Compares in a time that does not depend on where the texts differ.
bool is_same_secret(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

template <class T>
Result<std::optional<T>> number(const Target& target, const char* key) {
    const auto found = target.query.find(key);
    if (found == target.query.end()) return std::optional<T>();
    T value{};
    const char* end = found->second.data() + found->second.size();
    const auto parsed = std::from_chars(found->second.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end)
        return fail(ErrorCode::InvalidArgument, fmt::format("{} is {}; allowed: a whole number",
                                                            key, found->second.substr(0, 60)));
    return std::optional(value);
}

// Fails if the target has a query parameter that is not in `allowed`.
Result<void> only(const Target& target, std::initializer_list<const char*> allowed) {
    for (const auto& [key, value] : target.query) {
        if (std::ranges::find(allowed, key) != allowed.end()) continue;
        std::string names;
        for (const char* name : allowed) names += (names.empty() ? "" : ", ") + std::string(name);
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("unknown parameter {}; allowed: {}", key.substr(0, 60),
                                names.empty() ? "none" : names));
    }
    return {};
}

// Returns the arguments of the operation `jobs`.
Result<protocol::JobsArgs> jobs_args(const Target& target) {
    ROLL_TRY_VOID(only(target, {"selector", "state", "user", "from", "limit", "all", "fields"}));
    protocol::JobsArgs args;
    const auto text = [&](const char* key, std::string& value) {
        if (const auto found = target.query.find(key); found != target.query.end())
            value = found->second;
    };
    text("selector", args.selector);
    text("state", args.state);
    text("user", args.user);
    ROLL_TRY(const auto from, number<std::uint64_t>(target, "from"));
    args.from = from.value_or(0);
    ROLL_TRY(const auto limit, number<int>(target, "limit"));
    args.limit = limit.value_or(100);
    ROLL_TRY(const auto all, number<int>(target, "all"));
    args.all = all.value_or(0) != 0;
    std::string fields;
    text("fields", fields);
    for (std::string_view rest = fields; !rest.empty();) {
        const std::size_t end = rest.find(',');
        args.fields.emplace_back(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return args;
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

template <class Args>
auto ask_for(Board& rolld, const Args& args) {
    return rolld.look(Args::kOperation.name, protocol::arguments_json(args));
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
            "start roll-web with --host NAME to add a name");
    if (!request.origin.empty() && request.origin != "http://" + request.host &&
        request.origin != "https://" + request.host)
        return refusal(403, "pages of other sites may not send requests to this server");
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (!reads && request.method != "POST")
        return refusal(405, "the method is not GET, HEAD or POST");
    for (const PageFile& file : kPageFiles)
        if (reads && request.target == file.path)
            return text_reply(200, file.type, std::string(page_file(file.name)));
    return guarded(request);
}

// Answers a request that must present the token.
Reply Site::guarded(const Request& request) {
    constexpr std::string_view kBearer = "Bearer ";
    const std::string_view given = request.authorization;
    if (!given.starts_with(kBearer) ||
        !is_same_secret(given.substr(kBearer.size()), options_.token))
        return refusal(401, "the request has no valid token",
                       "open the address that `rollctl web` prints");
    if (request.method == "POST" && options_.read_only)
        return refusal(403, "this server was started with --read-only");
    const auto target = parse_target(request.target);
    if (!target) return error_reply(target.error());
    if (target->path == std::vector<std::string>{"metrics"} && request.method != "POST")
        return metrics();
    auto reply = api(request, *target);
    return reply ? *std::move(reply) : error_reply(reply.error());
}

Result<Reply> Site::api(const Request& request, const Target& target) {
    const std::vector<std::string>& path = target.path;
    if (path.size() < 3 || path[0] != "api" || path[1] != "v1") return nothing_there();
    if (path[2] == "jobs" && path.size() > 3) return job(request, target);
    if (path.size() > 3 || request.method == "POST") return nothing_there();
    if (path[2] == "jobs") {
        ROLL_TRY(const protocol::JobsArgs args, jobs_args(target));
        return look(args);
    }
    if (path[2] == "events") {
        ROLL_TRY_VOID(only(target, {"since", "limit", "newest"}));
        ROLL_TRY(const auto since, number<std::int64_t>(target, "since"));
        ROLL_TRY(const auto limit, number<int>(target, "limit"));
        ROLL_TRY(const auto newest, number<std::int64_t>(target, "newest"));
        return look(protocol::EventsArgs{.since = since.value_or(0),
                                         .limit = limit.value_or(100),
                                         .newest = newest.value_or(0)});
    }
    ROLL_TRY_VOID(only(target, {}));
    if (path[2] == "nodes") return look(protocol::NodesArgs{});
    if (path[2] == "allocations") return look(protocol::AllocListArgs{});
    if (path[2] == "totals") return look(protocol::TotalsArgs{});
    if (path[2] == "version") return look(protocol::VersionArgs{});
    return nothing_there();
}

Result<Reply> Site::job(const Request& request, const Target& target) {
    ROLL_TRY(const std::uint64_t id, job_id(target.path[3]));
    const std::size_t size = target.path.size();
    if (request.method == "POST") {
        if (size != 5) return nothing_there();
        ROLL_TRY_VOID(only(target, {}));
        const std::string& op = target.path[4];
        const protocol::Selection selection{.selector = std::to_string(id)};
        if (op == "cancel") return change(request, protocol::CancelArgs{selection});
        if (op == "hold") return change(request, protocol::HoldArgs{selection});
        if (op == "release") return change(request, protocol::ReleaseArgs{selection});
        if (op == "checkpoint") return change(request, protocol::CheckpointArgs{.id = id});
        return nothing_there();
    }
    if (size == 5 && (target.path[4] == "log" || target.path[4] == "metrics"))
        return job_file(target, target.path[4]);
    if (size != 4) return nothing_there();
    ROLL_TRY_VOID(only(target, {}));
    return look(protocol::ShowArgs{.id = id});
}

// Returns a part of a job's log or of its metrics.
Result<Reply> Site::job_file(const Target& target, const std::string& kind) {
    ROLL_TRY(const std::uint64_t id, job_id(target.path[3]));
    ROLL_TRY(const auto shown, ask_for(rolld_, protocol::ShowArgs{.id = id}));
    const Json& job = shown->json.at("job");
    const std::string output = job.value("output", "");
    Json args = Json::object();
    if (kind == "metrics") {
        ROLL_TRY_VOID(only(target, {"points"}));
        ROLL_TRY(const auto points, number<int>(target, "points"));
        args = {{"file", output + "/metrics.jsonl"}, {"points", points.value_or(kPointsMax)}};
    } else {
        ROLL_TRY_VOID(only(target, {"rank", "attempt", "from"}));
        ROLL_TRY(const auto rank, number<std::uint32_t>(target, "rank"));
        ROLL_TRY(const auto attempt, number<std::uint32_t>(target, "attempt"));
        ROLL_TRY(const auto from, number<std::uint64_t>(target, "from"));
        const auto newest = job.value("attempt", std::uint32_t{1});
        args["file"] = fmt::format("{}/logs/attempt-{}/rank-{}.log", output,
                                   attempt.value_or(newest), rank.value_or(0));
        if (from) args["from"] = *from;
    }
    ROLL_TRY(const auto answer, files_.look(kind, args));
    return json_reply(answer);
}

template <class Args>
Result<Reply> Site::look(const Args& args) {
    ROLL_TRY(const auto answer, ask_for(rolld_, args));
    return json_reply(answer);
}

// Sends a change to rolld. The body is empty, or an object with `reason`.
template <class Args>
Result<Reply> Site::change(const Request& request, Args args) {
    auto reason = reason_of(request.body);
    if (!reason) return fail(ErrorCode::InvalidArgument, reason.error().message);
    if constexpr (requires { args.reason; }) args.reason = *std::move(reason);
    ROLL_TRY(const auto answer,
             rolld_.change(Args::kOperation.name, protocol::arguments_json(std::move(args))));
    return json_reply(answer);
}

Reply Site::metrics() {
    constexpr const char* kType = "text/plain; version=0.0.4; charset=utf-8";
    const auto totals = ask_for(rolld_, protocol::TotalsArgs{});
    const auto version = ask_for(rolld_, protocol::VersionArgs{});
    const auto running =
        ask_for(rolld_, protocol::JobsArgs{.state = "running",
                                           .limit = kRunningMax,
                                           .fields = {"id", "name", "user", "progress"}});
    if (!totals || !version || !running) return text_reply(200, kType, exposition_of_silence());
    return text_reply(200, kType, exposition((*totals)->json, (*version)->json, (*running)->json));
}

}  // namespace roll::http
