// Sends requests to rolld and waits for the replies. Used by rollctl and tests. Blocks the calling
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
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

    // Connects to the rolld of a state directory. If rolld runs on this machine, connects to
    // rolld's Unix socket, else to rolld's endpoint with the key pair "client". Fails with
    // Unavailable if no rolld has started.
    static Result<Client> connect(const StateDirectory& directory);

    // Sends a request and returns the reply's `ok` or its error. Fails with Unavailable if no reply
    // arrives in time, for example because rolld does not run or does not authorize this client's
    // key. rolld may still carry out a request that timed out.
    Result<Json> ask(const std::string& op, const Json& args = Json::object(),
                     std::chrono::milliseconds timeout = std::chrono::seconds(10));

    // Sends one request for each element of `args`. At most 64 requests wait for their replies at a
    // time. Returns a reply or an error for each request, in the same order. `timeout` limits the
    // wait between two replies.
    std::vector<Result<Json>> ask_all(const std::string& op, const std::vector<Json>& args,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(10));

    // Sends a request without waiting for its reply. Returns the request's id. Fails with
    // Unavailable if rolld cannot be reached.
    Result<std::uint64_t> post(const std::string& op, const Json& args);

    struct Posted {
        std::uint64_t id = 0;
        Result<Json> reply;
    };
    // Returns the next reply to a posted request; nullopt if none arrives in time.
    std::optional<Posted> next_reply(std::chrono::milliseconds timeout);

    // Returns the descriptor of the channel (Channel::descriptor()), to wait for replies.
    int descriptor() const { return channel_->descriptor(); }

    // Returns the error of a request that got no answer within `timeout`.
    tl::unexpected<Error> silent(std::chrono::milliseconds timeout) const;

  private:
    Client(std::unique_ptr<Channel> channel, std::string endpoint)
        : channel_(std::move(channel)),
          endpoint_(std::move(endpoint)) {}

    std::unique_ptr<Channel> channel_;
    std::string endpoint_;
    std::uint64_t last_id_ = 0;
};

// Sends requests to the rolld of a state directory. Connects at the first request, and again after
// rolld could not be reached.
class LastingClient {
  public:
    LastingClient(StateDirectory directory, std::chrono::milliseconds timeout)
        : directory_(std::move(directory)),
          timeout_(timeout) {}
    Result<Json> operator()(const std::string& op, const Json& args);

  private:
    StateDirectory directory_;
    std::chrono::milliseconds timeout_;
    std::shared_ptr<Client> client_{};
};

}  // namespace roll::io
