// Decides who may connect (ZAP over CURVE): the public keys in keys/authorized. Removing a file
// also revokes existing connections at once, because each message is checked and the directory is
// checked for changes in each turn.
//
// A key's file name determines its role: client.pub is rolld's owner, who may do everything;
// client-NAME.pub is a user NAME, who controls only own jobs; worker*.pub are workers. On a Unix
// socket the peer's uid (SO_PEERCRED) is also checked: other users are refused regardless of
// their key. If the maximum number of connections is reached, clients are refused, but workers
// are not.
#pragma once

#include <chrono>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

#include "common/io/zmq_reader.hpp"
#include "daemon/gateway/connections.hpp"

namespace roll::gateway {

enum class Role { None, Client, Operator, Worker };

struct Identity {
    Role role = Role::None;
    std::string user;  // name of a Client or an Operator
    friend bool operator==(const Identity&, const Identity&) = default;
};

// Returns the identity for a file in keys/authorized. `owner` is the user that runs rolld.
Identity identity_of(const std::string& file, const std::string& owner);

// Returns the uid that libzmq appends to a Unix socket's peer address, "localhost:UID:GID:PID";
// nullopt for a network address.
std::optional<uid_t> uid_of(const std::string& address);

class Authenticator {
  public:
    // `server` is the socket that will be bound.
    Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                  const io::ZmqSocket& server, std::filesystem::path authorized,
                  std::size_t connections_max);

    // Answers libzmq's ZAP requests until stop().
    void start();
    void stop();

    // For each peer libzmq keeps 32 KiB of pipes to the ZAP socket that it asked, until the peer
    // disconnects. Replacing that socket regularly frees this memory for later peers. Call
    // periodically.
    void give_back_memory(std::chrono::steady_clock::time_point now);

    // Reads the keys again if the directory has changed.
    void refresh();
    // Returns the identity of a key as of the last refresh(). `user_id` is the key itself, as
    // answered to libzmq.
    Identity who(const std::string& user_id) const;
    // Returns the identity of a local process of rolld's owner that has no key: Operator while
    // client.pub exists.
    Identity owner() const;

  private:
    // A ZAP socket; libzmq asks only the newest about new peers.
    struct Desk {
        explicit Desk(std::unique_ptr<io::ZmqReader> made) : reader(std::move(made)) {}
        std::unique_ptr<io::ZmqReader> reader;
        int asked = 0;
        bool ended = false;
        std::chrono::steady_clock::time_point replaced_at{};
    };
    void open_desk();
    io::Task<void> serve(Desk& desk);
    void answer_all(Desk& desk);
    bool allows(const std::string& key, const std::string& address);

    boost::asio::io_context& io_;
    const io::ZmqContext& context_;
    std::list<Desk> desks_{};
    Connections connections_;
    std::size_t connections_max_;
    std::filesystem::path authorized_;
    std::string owner_;
    std::filesystem::file_time_type read_at_{};
    std::map<std::string, std::string> names_{};
};

}  // namespace roll::gateway
