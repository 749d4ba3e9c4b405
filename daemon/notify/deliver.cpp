#include "daemon/notify/deliver.hpp"

#include <csignal>
#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/run.hpp"
#include "daemon/notify/notice.hpp"
#include "daemon/notify/trust.hpp"

namespace roll::notify {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Code = boost::system::error_code;

constexpr std::size_t kAnswerMax = 64u << 10;

std::string text_of(const Url& url) {
    const bool v6 = url.host.find(':') != std::string::npos;
    return fmt::format("{}://{}{}{}:{}", url.tls ? "https" : "http", v6 ? "[" : "", url.host,
                       v6 ? "]" : "", url.port);
}

// Sends one POST request. Each step starts the next one, and the stream's timer ends a step that
// takes too long.
class Post {
  public:
    // `tls` is null for a target without TLS.
    Post(asio::io_context& io, const Target& target, asio::ssl::context* tls,
         http::request<http::string_body> request)
        : target_(target),
          resolver_(io),
          stream_(io),
          request_(std::move(request)) {
        parser_.body_limit(kAnswerMax);
        if (tls != nullptr) tls_.emplace(stream_, *tls);
    }

    void start() {
        resolver_.async_resolve(
            target_.url.host, target_.url.port, [this](Code error, const auto& found) {
                if (error) return end(error);
                stream_.async_connect(
                    found, [this](Code failed, const auto&) { failed ? end(failed) : begin(); });
            });
        stream_.expires_after(target_.timeout);
    }
    Result<void> result() const {
        const auto status = parser_.get().result_int();
        const char* refused = tls_ ? refusal_of(*tls_) : nullptr;
        const std::string why = refused  ? refused
                                : error_ ? error_.message()
                                         : fmt::format("the answer is {}", status);
        if (refused == nullptr && !error_ && status >= 200 && status < 300) return {};
        return fail(ErrorCode::Failed, text_of(target_.url) + ": " + why);
    }

  private:
    void begin() {
        if (!tls_) return write(stream_);
        if (!expect_host(*tls_, target_.url.host)) return end(asio::error::invalid_argument);
        tls_->async_handshake(asio::ssl::stream_base::client,
                              [this](Code failed) { failed ? end(failed) : write(*tls_); });
    }
    template <class Stream>
    void write(Stream& stream) {
        http::async_write(stream, request_, [this, &stream](Code error, std::size_t) {
            if (error) return end(error);
            http::async_read_header(stream, buffer_, parser_,
                                    [this](Code failed, std::size_t) { end(failed); });
        });
    }
    void end(Code error) {
        error_ = error;
        Code ignored;
        stream_.socket().close(ignored);
    }

    const Target& target_;
    asio::ip::tcp::resolver resolver_;
    beast::tcp_stream stream_;
    std::optional<TlsStream> tls_{};
    http::request<http::string_body> request_;
    http::response_parser<http::string_body> parser_{};
    beast::flat_buffer buffer_{kAnswerMax};
    Code error_{};
};

Result<void> post(const Target& target, const Delivery& delivery) {
    http::request<http::string_body> request(http::verb::post, target.url.path, 11);
    request.set(http::field::host, target.url.host + ":" + target.url.port);
    request.set(http::field::user_agent, "roll-notify/" ROLL_VERSION);
    request.set(http::field::content_type, "application/json");
    request.set(http::field::connection, "close");
    request.set("X-Roll-Event", delivery.event);
    request.set("X-Roll-Delivery", std::to_string(delivery.seq));
    if (!target.secret.empty())
        request.set("X-Roll-Signature-256", signature(target.secret, delivery.body));
    request.body() = delivery.body;
    request.prepare_payload();
    std::optional<asio::ssl::context> tls;
    if (target.url.tls) ROLL_TRY_VOID(trust(tls.emplace(asio::ssl::context::tls_client), target));
    asio::io_context io;
    Post one(io, target, tls ? &*tls : nullptr, std::move(request));
    one.start();
    // Limit the total time, because name resolution has no time limit of its own.
    io.run_for(target.timeout + std::chrono::seconds(1));
    if (!io.stopped())
        return fail(ErrorCode::Failed,
                    target.url.host + " could not be resolved to an address in time");
    return one.result();
}

Result<void> run(const Target& target, const Delivery& delivery) {
    // Pass the body in a file in memory. A write to a pipe would block if the command did not read.
    ROLL_TRY(const io::Descriptor body, io::memory_file(delivery.body));
    io::Spawn spawn;
    spawn.arguments = target.command;
    spawn.environment = io::current_environment();
    spawn.environment.push_back("ROLL_EVENT=" + delivery.event);
    spawn.environment.push_back(fmt::format("ROLL_DELIVERY={}", delivery.seq));
    spawn.descriptors = {
        {body.get(), STDIN_FILENO}, {STDOUT_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}};
    spawn.group = 0;
    spawn.death_signal = SIGKILL;
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    const io::Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{handle.get(), POLLIN, 0};
    const auto limit = std::chrono::milliseconds(target.timeout).count();
    const bool in_time = ::poll(&ended, 1, static_cast<int>(limit)) > 0;
    ::kill(-pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (in_time && status == 0) return {};
    const std::string why = !in_time ? fmt::format("took longer than {} s", target.timeout.count())
                            : WIFEXITED(status)
                                ? fmt::format("ended with exit code {}", WEXITSTATUS(status))
                                : fmt::format("was ended by signal {}", WTERMSIG(status));
    return fail(ErrorCode::Failed, target.command.front() + " " + why);
}

}  // namespace

Result<void> deliver(const Target& target, const Delivery& delivery) {
    return target.command.empty() ? post(target, delivery) : run(target, delivery);
}

}  // namespace roll::notify
