// Answers HTTP requests: the dashboard's files, JSON below /api/v1, and /metrics. A Site uses no
// sockets. docs/web.md has the table of addresses.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/operation.hpp"
#include "common/rate_limit.hpp"
#include "common/spec/job/http.hpp"
#include "daemon/http/board.hpp"
#include "daemon/http/pipeline.hpp"
#include "daemon/http/routes.hpp"
#include "daemon/http/target.hpp"
#include "daemon/http/trial_files.hpp"

namespace roll::http {

struct Request {
    std::string method;
    std::string target;
    std::string host;           // value of the header Host
    std::string origin;         // value of the header Origin; empty: none
    std::string authorization;  // value of the header Authorization
    // value of the header X-Roll-Action; pages of other sites cannot send this header
    std::string action;
    std::string body;
    std::string address{};  // IP address of the client
};

struct Reply {
    int status = 200;
    std::string type = "application/json";
    std::shared_ptr<const std::string> body;
    // If not empty, the reply is a stream of server-sent events. The stream sends the answers to
    // GET requests for these targets, and sends an answer again when it changes.
    std::vector<std::string> watched{};
    int retry_after_s = 0;  // value of the header Retry-After; 0: none
};

struct SiteOptions {
    std::string token;               // the bearer token that has all rights of roll-web's key
    std::vector<std::string> hosts;  // accepted values of the header Host, with the port
    bool read_only = false;          // true if requests that change something are refused
    bool tls = false;                // true if the server itself serves TLS
    // Maximum number of requests per second from one client. A client is a pair of a valid token
    // and an address, or an address that sends no valid token.
    int requests_per_second = spec::HttpConfig().requests_per_second;
};

// The class is thread-safe.
class Site {
  public:
    // Maximum number of files that are read at the same time
    static constexpr std::size_t kFilesAtOnce = 16;
    // A client may save up unused requests for this time, so that a page that loads many files at
    // once is not delayed.
    static constexpr int kBurstSeconds = 20;

    // `rolld` sends requests to rolld. `files` is read_job_file() and `plan` is run_plan(), except
    // in tests.
    Site(SiteOptions options, Ask rolld, Ask files, Pipelines::Run plan = run_plan)
        : options_(std::move(options)),
          rolld_(std::move(rolld)),
          files_(std::move(files), kFilesAtOnce),
          pipelines_(std::move(plan)),
          rate_(options_.requests_per_second, kBurstSeconds * options_.requests_per_second) {}

    // Adds an accepted value of the header Host. Call this function before the first request.
    void accept_host(std::string host) { options_.hosts.push_back(std::move(host)); }

    // Answers a request of a client. Answers 429 if the client sends too many requests.
    Reply answer(const Request& request) { return answer(request, true); }
    // Computes an answer that a stream watches. The answer does not count as a request of the
    // client.
    Reply answer_watched(const Request& request) { return answer(request, false); }

  private:
    // The bearer of a request's token.
    struct Visitor {
        std::string token{};  // token that rolld checks; empty: the token of the state directory
        // highest level of access that the token gives
        protocol::Access access = protocol::Access::Operate;
        std::string user{};
        bool is_operator = true;
    };
    using Answered = Result<std::shared_ptr<const Answer>>;

    Reply answer(const Request& request, bool counts);
    Reply guarded(const Request& request, bool counts);
    std::optional<Reply> take(const std::string& client);
    std::optional<Reply> take_address(const Request& request);
    Result<Visitor> visitor_of(std::string_view authorization);
    Answered send(const Visitor& visitor, const protocol::Operation& operation, const Json& args);
    template <class Args>
    Answered ask(const Visitor& visitor, const Args& args);
    Result<Reply> serve(const Visitor& visitor, const protocol::Operation& operation,
                        const Json& args);
    Result<Reply> api(const Visitor& visitor, const Request& request, const Target& target);
    Result<Reply> routed(const Visitor& visitor, const Request& request, const Target& target,
                         const RouteMatch& match);
    Result<std::shared_ptr<const Answer>> own_job(const Visitor& visitor, std::uint64_t id);
    Result<Reply> job_log(const Visitor& visitor, const Target& target, std::uint64_t id);
    Result<Reply> job_metrics(const Visitor& visitor, const Target& target, std::uint64_t id);
    Result<Reply> session(const Visitor& visitor);
    Result<Reply> pipeline(const Visitor& visitor, std::uint64_t id);
    Result<Reply> sweep(const Visitor& visitor, std::uint64_t id);
    Reply metrics(const Visitor& visitor, const char* type);

    SiteOptions options_;
    Board rolld_;
    Board files_;
    TrialFiles trials_;
    Pipelines pipelines_;
    RateLimit rate_;
};

// Returns a reply that reports the error as JSON, with the HTTP status of its code.
Reply error_reply(const Error& error);

// Returns a reply with status 429. The reply reports the error and tells the client to wait.
// `limit` is "requests" or "streams", whichever the client has too many of.
Reply too_many(const Error& error, const char* limit, std::chrono::milliseconds wait);

}  // namespace roll::http
