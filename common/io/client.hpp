// Asks rolld, and waits for the reply. For rollctl and tests; blocks the caller's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "common/io/channel.hpp"
#include "common/io/state_directory.hpp"
#include "common/json.hpp"

namespace roll::io {

class Client {
  public:
    static Result<Client> connect(const std::string& endpoint, const CurveKeys& keys,
                                  const std::string& server_public_key);

    // To the rolld of a state directory: over its Unix socket if it runs on this machine, else with
    // the keys "client". Error Unavailable if none has started.
    static Result<Client> connect(const StateDirectory& directory);

    // The reply's `ok`, or its error. Error Unavailable, with a hint, if nobody answers in time:
    // rolld is not there, or does not know this key. A request that ran out may have been carried
    // out all the same.
    Result<Json> ask(const std::string& op, const Json& args = Json::object(),
                     std::chrono::milliseconds timeout = std::chrono::seconds(10));

    // The same for many at once, up to 64 of them under way: in their order, each with a reply or
    // an error of its own. `timeout` is between two replies.
    std::vector<Result<Json>> ask_all(const std::string& op, const std::vector<Json>& args,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(10));

  private:
    tl::unexpected<Error> silent(std::chrono::milliseconds timeout) const;
    Client(std::unique_ptr<Channel> channel, std::string endpoint)
        : channel_(std::move(channel)),
          endpoint_(std::move(endpoint)) {}

    std::unique_ptr<Channel> channel_;
    std::string endpoint_;
    std::uint64_t last_id_ = 0;
};

}  // namespace roll::io
