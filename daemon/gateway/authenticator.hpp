// Who may connect (ZAP over CURVE): the public keys in keys/authorized. A removed file revokes at
// once, for connections already up as well: each message is asked about, and the folder is looked
// at in each turn.
//
// A key's file says what it is for: client.pub is the user whose rolld this is, who may do all;
// client-NAME.pub is a user NAME, who acts on own jobs only; worker*.pub are workers. On a Unix
// socket the kernel says besides whose process it is (SO_PEERCRED): another user's is turned away,
// whatever key it has. Where so many are connected as may be, clients are turned away, and workers
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
    std::string user;  // of a Client or an Operator
    friend bool operator==(const Identity&, const Identity&) = default;
};

// What a file of keys/authorized makes of its key; `owner` is the user whose rolld this is.
Identity identity_of(const std::string& file, const std::string& owner);

// The user id that libzmq appends to a Unix socket's peer address, "localhost:UID:GID:PID"; nothing
// for one of the network.
std::optional<uid_t> uid_of(const std::string& address);

class Authenticator {
  public:
    // `server` is the socket that is to be bound.
    Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                  const io::ZmqSocket& server, std::filesystem::path authorized,
                  std::size_t connections_max);

    // Answers libzmq's questions until stop().
    void start();
    void stop();

    // libzmq keeps the pipes open, 32 KiB a peer, to whom it asked about a peer, for as long as
    // that is connected. So whom it asks is replaced again and again, and the memory of the one
    // before serves the peers that come next. Called now and then.
    void give_back_memory(std::chrono::steady_clock::time_point now);

    // Looks whether keys have come or gone.
    void refresh();
    // What the key may do, as of the last refresh(); `user_id` is what run() said of it, the key
    // itself.
    Identity who(const std::string& user_id) const;
    // What the user whose rolld this is may do without a key, on this machine: all, as long as
    // client.pub is there.
    Identity owner() const;

  private:
    // One whom libzmq asks; only the last of them is asked about further peers.
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
