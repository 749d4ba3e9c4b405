// Serves a Site over HTTP/1.1, with or without TLS. Sizes, times and numbers of connections are
// limited. A client that sends or reads slowly delays no other client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "common/io/task.hpp"
#include "daemon/http/feed.hpp"
#include "daemon/http/site.hpp"
#include "daemon/tls/certificate.hpp"

namespace roll::http {

class Listener {
  public:
    static constexpr std::size_t kConnectionsMax = 4096;
    static constexpr std::size_t kHandshakesMax = 1024;  // limit of unfinished TLS handshakes

    // Serves TLS if there is a certificate.
    Listener(boost::asio::io_context& io, Site& site,
             std::optional<tls::Certificate> certificate = {});
    ~Listener();

    // Binds the address and starts to serve. Fails with Refused if the port is taken. Port 0 lets
    // the system choose a port.
    Result<void> listen(const std::string& address, std::uint16_t port);
    std::uint16_t port() const;
    void stop();
    void reload_certificate();

  private:
    using Socket = boost::asio::ip::tcp::socket;
    io::Task<void> accept();
    io::Task<void> serve_plain(Socket socket);
    io::Task<void> serve_tls(Socket socket);
    template <class Stream>
    io::Task<void> serve(Stream& stream);
    io::Task<Reply> answer(const Request& request);
    std::shared_ptr<Feed::Channel> join(const Request& request, Reply& reply);

    boost::asio::io_context& io_;
    Site& site_;
    // threads that answer requests, because rolld and files may be slow
    boost::asio::thread_pool threads_;
    Feed feed_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::optional<tls::Certificate> certificate_;
    std::size_t connections_ = 0;
    std::size_t handshakes_ = 0;
};

}  // namespace roll::http
