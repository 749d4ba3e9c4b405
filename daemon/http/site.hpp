// Answers HTTP requests: the dashboard's files, JSON below /api/v1, and /metrics. Independent of
// sockets. docs/web.md has the table of addresses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/http/board.hpp"
#include "daemon/http/target.hpp"

namespace roll::http {

struct Request {
    std::string method;
    std::string target;
    std::string host;           // header Host
    std::string origin;         // header Origin; empty: none
    std::string authorization;  // header Authorization
    std::string body;
};

struct Reply {
    int status = 200;
    std::string type = "application/json";
    std::shared_ptr<const std::string> body;
};

struct SiteOptions {
    std::string token;               // secret that requests must present as a bearer token
    std::vector<std::string> hosts;  // accepted values of the header Host, with the port
    bool read_only = false;          // refuses requests that change something
};

// Safe to use from several threads.
class Site {
  public:
    // `rolld` sends requests to rolld. `files` is read_job_file(), except in tests.
    Site(SiteOptions options, Ask rolld, Ask files)
        : options_(std::move(options)),
          rolld_(std::move(rolld)),
          files_(std::move(files)) {}

    // Adds an accepted value of the header Host. Call it before the first request.
    void accept_host(std::string host) { options_.hosts.push_back(std::move(host)); }

    Reply answer(const Request& request);

  private:
    Reply guarded(const Request& request);
    Result<Reply> api(const Request& request, const Target& target);
    Result<Reply> job(const Request& request, const Target& target);
    template <class Args>
    Result<Reply> look(const Args& args);
    template <class Args>
    Result<Reply> change(const Request& request, Args args);
    Result<Reply> job_file(const Target& target, const std::string& kind);
    Reply metrics();

    SiteOptions options_;
    Board rolld_;
    Board files_;
};

// Returns a reply that reports the error as JSON, with the HTTP status of its code.
Reply error_reply(const Error& error);

}  // namespace roll::http
