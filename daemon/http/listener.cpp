#include "daemon/http/listener.hpp"

#include <chrono>
#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace roll::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;
using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr std::size_t kHeaderBytesMax = 8u << 10;
constexpr std::size_t kBodyBytesMax = 64u << 10;
// Longest time to receive a request, including the wait for its first byte, or to send a reply.
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kHandshakePatience = std::chrono::seconds(10);
constexpr auto kPauseAfterTrouble = std::chrono::milliseconds(100);
constexpr std::size_t kThreads = 4;

// A browser that follows this policy runs no script that a job's name or log contains.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string header(const Parser::value_type& message, beast::http::field name) {
    return std::string(message[name]);
}

Request request_of(const Parser::value_type& message, const std::string& address) {
    return {.method = std::string(message.method_string()),
            .target = std::string(message.target()),
            .host = header(message, beast::http::field::host),
            .origin = header(message, beast::http::field::origin),
            .authorization = header(message, beast::http::field::authorization),
            .action = std::string(message["X-Roll-Action"]),
            .body = message.body(),
            .address = address};
}

// Returns the reply to a request that could not be parsed; nullopt if the peer is gone.
std::optional<Reply> reply_to_garbage(const beast::error_code& error) {
    Reply reply = error_reply({ErrorCode::InvalidArgument, "the request is not valid HTTP/1.1"});
    if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
        reply =
            error_reply({ErrorCode::InvalidArgument,
                         fmt::format("the request's header is too large; allowed: at most {} bytes",
                                     kHeaderBytesMax)});
        reply.status = 431;
        return reply;
    }
    if (error == beast::http::error::body_limit) {
        reply =
            error_reply({ErrorCode::InvalidArgument,
                         fmt::format("the request's body is too large; allowed: at most {} bytes",
                                     kBodyBytesMax)});
        reply.status = 413;
        return reply;
    }
    const bool is_http =
        error.category() == make_error_code(beast::http::error::bad_method).category();
    if (!is_http || error == beast::http::error::end_of_stream ||
        error == beast::http::error::partial_message)
        return std::nullopt;
    return reply;
}

// Answers the request. Converts an exception to a reply with an error. For example, reading a field
// that is missing in rolld's reply throws an exception.
Reply answer_or_report(Site& site, const Request& request) {
    try {
        return site.answer(request);
    } catch (const std::exception& e) {
        spdlog::error("internal error at {} {}: {}", request.method, request.target, e.what());
        return error_reply({ErrorCode::Failed, "internal error; roll-web's log has the details"});
    }
}

using Message = beast::http::response<beast::http::span_body<const char>>;

// Returns the HTTP response for a reply. The reply's body must outlive the response.
Message response_of(const Reply& reply, bool keep_alive) {
    Message message{static_cast<beast::http::status>(reply.status), 11};
    message.set(beast::http::field::content_type, reply.type);
    message.set(beast::http::field::cache_control, "no-store");
    message.set("Content-Security-Policy", kPolicy);
    message.set("X-Content-Type-Options", "nosniff");
    message.set("Referrer-Policy", "no-referrer");
    if (reply.retry_after_s > 0)
        message.set(beast::http::field::retry_after, std::to_string(reply.retry_after_s));
    if (reply.status == 401) message.set(beast::http::field::www_authenticate, "Bearer");
    message.body() = boost::span<const char>(reply.body->data(), reply.body->size());
    message.keep_alive(keep_alive);
    if (reply.watched.empty()) message.prepare_payload();
    return message;
}

}  // namespace

Listener::Listener(asio::io_context& io, Site& site, std::optional<tls::Certificate> certificate)
    : io_(io),
      site_(site),
      threads_(kThreads),
      feed_(io, threads_, site),
      acceptor_(io),
      certificate_(std::move(certificate)) {}

Listener::~Listener() { threads_.join(); }

Result<void> Listener::listen(const std::string& address, std::uint16_t port) {
    boost::system::error_code error;
    const Tcp::endpoint endpoint(asio::ip::make_address(address, error), port);
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
        return fail(ErrorCode::Refused,
                    fmt::format("cannot listen on {}:{}: {}", address, port, error.message()),
                    "choose another address with --listen ADDRESS:PORT");
    io::spawn(io_, accept());
    io::spawn(io_, feed_.run());
    return {};
}

std::uint16_t Listener::port() const { return acceptor_.local_endpoint().port(); }

void Listener::stop() {
    boost::system::error_code error;
    acceptor_.close(error);
    io_.stop();
}

void Listener::reload_certificate() {
    if (certificate_) certificate_->reload();
}

io::Task<void> Listener::accept() {
    const auto token = asio::as_tuple(asio::use_awaitable);
    while (acceptor_.is_open()) {
        auto [error, socket] = co_await acceptor_.async_accept(token);
        if (error == asio::error::operation_aborted) co_return;
        if (error) {  // accept() fails, for example, if no descriptor is left
            asio::steady_timer pause(io_, kPauseAfterTrouble);
            co_await pause.async_wait(token);
            continue;
        }
        // refuse the connection: the destructor of `socket` closes it
        if (connections_ >= kConnectionsMax || handshakes_ >= kHandshakesMax) continue;
        if (certificate_)
            io::spawn(io_, serve_tls(std::move(socket)));
        else
            io::spawn(io_, serve_plain(std::move(socket)));
    }
}

// Answers the request on a thread of the pool. The caller then continues on the context's thread.
io::Task<Reply> Listener::answer(const Request& request) {
    auto work = [this, &request]() -> io::Task<Reply> {
        co_return answer_or_report(site_, request);
    };
    Reply reply = co_await asio::co_spawn(threads_, work, asio::use_awaitable);
    co_return reply;
}

// Returns the channel of the reply's stream; null if the reply is not a stream. If there are too
// many channels, replaces the reply by a refusal.
std::shared_ptr<Feed::Channel> Listener::join(const Request& request, Reply& reply) {
    if (reply.watched.empty() || request.method == "HEAD") return nullptr;
    auto channel = feed_.join(request, reply.watched);
    if (channel) return *std::move(channel);
    reply = too_many(channel.error(), "streams", Feed::kRetryAfter);
    return nullptr;
}

io::Task<void> Listener::serve_plain(Socket socket) {
    beast::tcp_stream stream(std::move(socket));
    ++connections_;
    co_await serve(stream);
    --connections_;
    beast::error_code ignored;
    stream.socket().shutdown(Tcp::socket::shutdown_both, ignored);
}

io::Task<void> Listener::serve_tls(Socket socket) {
    const auto token = asio::as_tuple(asio::use_awaitable);
    const auto context = certificate_->context();
    beast::ssl_stream<beast::tcp_stream> stream(std::move(socket), *context);
    ++connections_;
    ++handshakes_;
    beast::get_lowest_layer(stream).expires_after(kHandshakePatience);
    const auto [failed] = co_await stream.async_handshake(asio::ssl::stream_base::server, token);
    --handshakes_;
    if (!failed) {
        co_await serve(stream);
        beast::get_lowest_layer(stream).expires_after(kHandshakePatience);
        co_await stream.async_shutdown(token);
    }
    --connections_;
}

// Answers requests until the peer or an error closes the connection.
template <class Stream>
io::Task<void> Listener::serve(Stream& stream) {
    const auto token = asio::as_tuple(asio::use_awaitable);
    beast::tcp_stream& lowest = beast::get_lowest_layer(stream);
    beast::flat_buffer buffer(kHeaderBytesMax + kBodyBytesMax);
    beast::error_code unknown;
    const auto peer = lowest.socket().remote_endpoint(unknown);
    const std::string address = unknown ? "" : peer.address().to_string();
    for (bool open = true; open;) {
        Parser parser;
        parser.header_limit(kHeaderBytesMax);
        parser.body_limit(kBodyBytesMax);
        lowest.expires_after(kPatience);
        const auto [error, size] = co_await beast::http::async_read(stream, buffer, parser, token);
        std::optional<Reply> reply;
        std::shared_ptr<Feed::Channel> channel;
        Request request;
        bool head = false;
        if (error) {
            reply = reply_to_garbage(error);
            open = false;
        } else {
            request = request_of(parser.get(), address);
            head = request.method == "HEAD";
            open = parser.get().keep_alive();
            Reply answered = co_await answer(request);
            channel = join(request, answered);
            reply = std::move(answered);
        }
        if (!reply) break;
        if (channel) open = false;  // a stream of events ends with the connection
        Message message = response_of(*reply, open);
        beast::http::response_serializer<beast::http::span_body<const char>> serializer(message);
        lowest.expires_after(kPatience);
        if (head || channel) {
            const auto [failed, sent] =
                co_await beast::http::async_write_header(stream, serializer, token);
            if (failed) break;
            if (channel) co_await feed_.serve(stream, channel);
        } else {
            const auto [failed, sent] =
                co_await beast::http::async_write(stream, serializer, token);
            if (failed) break;
        }
    }
}

}  // namespace roll::http
