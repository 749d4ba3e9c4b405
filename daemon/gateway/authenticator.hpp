// Who may connect (ZAP over CURVE): the public keys in keys/authorized. A removed file revokes at
// once, for connections already up as well: each message is asked about.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/io/zmq_reader.hpp"

namespace roll::gateway {

enum class Role { None, Client, Worker };

class Authenticator {
  public:
    Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                  std::filesystem::path authorized);

    // Answers libzmq's questions until stop().
    io::Task<void> run();
    void stop() { reader_.stop(); }

    // What the key may do now; `user_id` is what run() said of it, the key itself.
    Role role_of(const std::string& user_id);

  private:
    void refresh();

    io::ZmqReader reader_;
    std::filesystem::path authorized_;
    std::filesystem::file_time_type read_at_{};
    std::map<std::string, std::string> names_{};
};

}  // namespace roll::gateway
