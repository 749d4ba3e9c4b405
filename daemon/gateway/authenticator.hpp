// Decides who may connect: the owners of the public keys in keys/authorized. Uses ZeroMQ's CURVE
// keys and its authentication protocol ZAP. Each message is checked against these keys. Each turn
// of rolld's loop reads the keys again if the directory has changed. Messages under a removed key
// are therefore refused at once, even on an open connection.
//
// The name of a key's file determines the role of its holder. client.pub is the key of rolld's
// owner, who may do everything. client-NAME.pub is the key of the user NAME, who controls only
// their own jobs. worker*.pub are the keys of workers. On a Unix socket the peer's uid
// (SO_PEERCRED) is checked as well: users other than rolld's owner are refused, whatever their key.
//
// At the maximum number of connections, new clients are refused, but workers are not.
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
    std::string user;  // user name of a Client or an Operator
    friend bool operator==(const Identity&, const Identity&) = default;
};

// Returns the identity that a file name in keys/authorized gives to a key. `owner` is the user that
// runs rolld.
Identity identity_of(const std::string& file, const std::string& owner);

// Returns the uid in the address of a peer on a Unix socket. libzmq writes the address as
// "localhost:UID:GID:PID". nullopt for a network address.
std::optional<uid_t> uid_of(const std::string& address);

class Authenticator {
  public:
    // `server` is the socket whose peers are authenticated. `server` must not be bound yet.
    Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                  const io::ZmqSocket& server, std::filesystem::path authorized,
                  std::size_t connections_max);

    // Answers libzmq's ZAP requests until stop().
    void start();
    void stop();

    // Frees memory of libzmq. Call this function periodically.
    //
    // libzmq asks a ZAP socket about each peer and keeps 32 KiB of pipes for this, until the peer
    // disconnects. This function replaces the ZAP socket from time to time, so that the pipes of
    // disconnected peers are freed with the old socket.
    void give_back_memory(std::chrono::steady_clock::time_point now);

    // Reads the keys again if the directory has changed.
    void refresh();
    // Returns the identity of a key as of the last refresh(). `user_id` is the public key, which
    // libzmq attaches to each message.
    Identity who(const std::string& user_id) const;
    // Returns the identity of a local process that runs as rolld's owner and presents no key: an
    // Operator if client.pub exists, else an identity with Role::None.
    Identity owner() const;
    // Returns the role of the user as of the last refresh(): Role::None if the user has no key.
    Role role_of(const std::string& user) const;

  private:
    // A ZAP socket. libzmq asks only the newest ZAP socket about new peers.
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
