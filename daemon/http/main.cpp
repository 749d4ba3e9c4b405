// roll-web: serves the dashboard, a JSON interface and Prometheus metrics of one rolld over HTTP.
#include <algorithm>
#include <charconv>
#include <csignal>
#include <functional>
#include <optional>

#include <CLI/CLI.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/client.hpp"
#include "common/io/state_directory.hpp"
#include "common/last_resort.hpp"
#include "daemon/http/job_files.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/http/patient.hpp"

namespace roll::http {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);      // longest wait for a reply from rolld
constexpr auto kFilePatience = std::chrono::seconds(4);  // longest wait for a file of a job

struct Options {
    std::string dir;
    std::string listen = "127.0.0.1:8410";
    std::vector<std::string> hosts;
    bool read_only = false;
    bool insecure = false;
    std::string certificate, key;
};

struct Address {
    std::string ip;
    std::uint16_t port = 0;
};

Result<Address> address_of(const Options& options) {
    const std::size_t colon = options.listen.rfind(':');
    Address address{options.listen.substr(0, colon), 0};
    const std::string port = colon == std::string::npos ? "" : options.listen.substr(colon + 1);
    const char* end = port.data() + port.size();
    boost::system::error_code error;
    const auto ip = boost::asio::ip::make_address(address.ip, error);
    const auto parsed = std::from_chars(port.data(), end, address.port);
    if (error || port.empty() || parsed.ec != std::errc() || parsed.ptr != end)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--listen is {}; allowed: ADDRESS:PORT, for example 127.0.0.1:8410",
                                options.listen));
    if (!ip.is_loopback() && !options.insecure && options.certificate.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--listen is {}: other machines could read the token, because "
                                "there is no encryption",
                                options.listen),
                    "add --certificate FILE --key FILE, listen on 127.0.0.1 behind an SSH tunnel, "
                    "or add --insecure");
    return address;
}

Result<std::optional<Certificate>> read_certificate(const Options& options) {
    if (options.certificate.empty() != options.key.empty())
        return fail(ErrorCode::InvalidArgument, "TLS needs both --certificate FILE and --key FILE");
    if (options.certificate.empty()) return std::optional<Certificate>();
    ROLL_TRY(Certificate certificate, Certificate::read(options.certificate, options.key));
    return std::optional(std::move(certificate));
}

// Returns the token in the state directory. The first call creates a random token.
Result<std::string> read_token(const io::StateDirectory& directory) {
    const auto path = directory.root() / "web.token";
    if (!path_exists(path)) {
        std::string bytes(32, '\0'), token;
        if (::getentropy(bytes.data(), bytes.size()) != 0)
            return fail(ErrorCode::Failed, "cannot get random bytes from the system");
        for (const char byte : bytes)
            token += fmt::format("{:02x}", static_cast<unsigned char>(byte));
        ROLL_TRY_VOID(write_private_file(path, token + "\n"));
    }
    ROLL_TRY(std::string token, read_private_file(path));
    while (!token.empty() && token.back() == '\n') token.pop_back();
    if (token.size() < 16)
        return fail(ErrorCode::Corrupt,
                    fmt::format("{} has a token of {} characters; allowed: at least 16",
                                path.string(), token.size()),
                    "delete the file; roll-web then makes a new token");
    return token;
}

// Sends requests to rolld, and connects again after a failure.
class Rolld {
  public:
    explicit Rolld(io::StateDirectory directory) : directory_(std::move(directory)) {}

    Result<Json> operator()(const std::string& op, const Json& args) {
        if (!client_) {
            auto made = io::Client::connect(directory_);
            if (!made) return tl::unexpected(made.error());
            client_ = std::make_shared<io::Client>(*std::move(made));
        }
        auto reply = client_->ask(op, args, kPatience);
        if (!reply && reply.error().code == ErrorCode::Unavailable) client_.reset();
        return reply;
    }

  private:
    io::StateDirectory directory_;
    std::shared_ptr<io::Client> client_;
};

void say_where(const std::string& scheme, const std::string& address,
               const io::StateDirectory& directory, const std::string& token) {
    fmt::print("{}://{}/\n", scheme, address);
    std::fflush(stdout);
    const std::string file = (directory.root() / "web.token").string();
    if (::isatty(STDERR_FILENO) != 0)
        fmt::print(stderr, "open this address and enter the token {}\n", token);
    else
        fmt::print(stderr, "the token is in {}\n", file);
}

Result<int> serve(const Options& options) {
    ROLL_TRY(const Address address, address_of(options));
    ROLL_TRY(std::optional<Certificate> certificate, read_certificate(options));
    const bool tls = certificate.has_value();
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(options.dir));
    ROLL_TRY_VOID(directory.read_endpoint());
    ROLL_TRY(const std::string token, read_token(directory));
    boost::asio::io_context io;
    SiteOptions site_options{token, {}, options.read_only, tls};
    const auto files = [state = directory.root()](const std::string& op, const Json& args) {
        return read_job_file(op, args, state);
    };
    Site site(site_options, Rolld(directory), Patient(files, kFilePatience));
    Listener listener(io, site, std::move(certificate));
    ROLL_TRY_VOID(listener.listen(address.ip, address.port));
    const std::string port = std::to_string(listener.port());
    for (const std::string& host : options.hosts) {
        site.accept_host(host);
        site.accept_host(host + ":" + port);
    }
    const bool is_default_port = listener.port() == (tls ? 443 : 80);
    for (const std::string& host : {address.ip, std::string("localhost")}) {
        site.accept_host(host + ":" + port);
        if (is_default_port) site.accept_host(host);
    }
    say_where(tls ? "https" : "http", address.ip + ":" + port, directory, token);
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&](const boost::system::error_code& error, int) {
        if (!error) listener.stop();
    });
    boost::asio::signal_set hangups(io);
    const std::function<void(const boost::system::error_code&, int)> reload =
        [&](const boost::system::error_code& error, int) {
            if (error) return;
            listener.reload_certificate();
            hangups.async_wait(reload);
        };
    if (tls) {
        hangups.add(SIGHUP);
        hangups.async_wait(reload);
    }
    io.run();
    return 0;
}

int run(int argc, char** argv) {
    CLI::App app{"roll-web: serves the dashboard and the metrics of a rolld over HTTP"};
    Options options;
    app.add_option("--dir", options.dir, "State directory of rolld");
    app.add_option("--listen", options.listen, "Address and port; port 0: any free port")
        ->capture_default_str();
    app.add_option("--host", options.hosts,
                   "Also serve requests for this host name, for example that of a proxy");
    app.add_flag("--read-only", options.read_only, "Refuse to cancel, hold or release jobs");
    app.add_flag("--insecure", options.insecure,
                 "Listen on an address that other machines can reach, without encryption");
    app.add_option("--certificate", options.certificate,
                   "Serve TLS with this certificate and its chain, in PEM");
    app.add_option("--key", options.key, "Private key of the certificate, in PEM");
    CLI11_PARSE(app, argc, argv);
    spdlog::set_default_logger(spdlog::stderr_logger_mt("roll-web"));
    const auto status = serve(options);
    if (status) return *status;
    fmt::print(stderr, "roll-web: {}\n", status.error().message);
    if (!status.error().hint.empty()) fmt::print(stderr, "  next: {}\n", status.error().hint);
    return exit_code(status.error().code);
}

}  // namespace
}  // namespace roll::http

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-web", [&] { return roll::http::run(argc, argv); });
}
