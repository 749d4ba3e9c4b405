// roll-web: serves the dashboard, a JSON interface and Prometheus metrics of one rolld over HTTP.
#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/help_format.hpp"
#include "common/io/client.hpp"
#include "common/io/open_files.hpp"
#include "common/io/service_manager.hpp"
#include "common/io/state_directory.hpp"
#include "common/program_end.hpp"
#include "common/spec/check/parse_policy.hpp"
#include "daemon/config/config.hpp"
#include "daemon/http/job_files.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/http/patient.hpp"

namespace roll::http {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);      // longest wait for a reply from rolld
constexpr auto kFilePatience = std::chrono::seconds(4);  // longest wait for a file of a job
constexpr int kNiceness = 5;                             // added to the niceness of roll-web

struct Options {
    std::string dir;
    std::string config;
    std::string listen;
    bool read_only = false;
};

// Returns the section `http` of rolld.yaml, with the options of the command line.
Result<spec::HttpConfig> settings_of(const Options& options, const io::StateDirectory& directory) {
    ROLL_TRY(config::Config config, config::find_config(options.config, directory.root()));
    spec::HttpConfig http = std::move(config.http);
    http.read_only |= options.read_only;
    if (options.listen.empty()) return http;
    http.listen = options.listen;
    const auto problems = spec::check_http(http);
    if (problems.empty()) return http;
    return fail(ErrorCode::InvalidArgument, "--listen " + problems.front().message,
                "docs/rolld-yaml.md, section http");
}

Result<std::optional<tls::Certificate>> read_certificate(const spec::HttpConfig& http) {
    if (http.certificate.empty()) return std::optional<tls::Certificate>();
    ROLL_TRY(tls::Certificate certificate, tls::Certificate::read(http.certificate, http.key));
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

Result<int> serve(const Options& options, const io::ServiceManager& manager) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(options.dir));
    ROLL_TRY(const spec::HttpConfig http, settings_of(options, directory));
    ROLL_TRY(const spec::ListenAddress address, spec::parse_listen(http.listen));
    ROLL_TRY(std::optional<tls::Certificate> certificate, read_certificate(http));
    const bool tls = certificate.has_value();
    ROLL_TRY_VOID(directory.read_endpoint());
    ROLL_TRY(const std::string token, read_token(directory));
    boost::asio::io_context io;
    SiteOptions site_options{token, {}, http.read_only, tls, http.requests_per_second};
    const auto files = [state = directory.root()](const std::string& op, const Json& args) {
        return read_job_file(op, args, state);
    };
    Site site(site_options, io::LastingClient(directory, kPatience), Patient(files, kFilePatience));
    Listener listener(io, site, std::move(certificate));
    ROLL_TRY_VOID(listener.listen(address.ip, address.port));
    const std::string port = std::to_string(listener.port());
    for (const std::string& host : http.hosts) {
        site.accept_host(host);
        site.accept_host(host + ":" + port);
    }
    const bool is_default_port = listener.port() == (tls ? 443 : 80);
    for (const std::string& host : {address.ip, std::string("localhost")}) {
        site.accept_host(host + ":" + port);
        if (is_default_port) site.accept_host(host);
    }
    say_where(tls ? "https" : "http", address.ip + ":" + port, directory, token);
    manager.tell(fmt::format("READY=1\nSTATUS=serves {}://{}:{}/", tls ? "https" : "http",
                             address.ip, port));
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&](const boost::system::error_code& error, int) {
        if (error) return;
        manager.tell("STOPPING=1");
        listener.stop();
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
    app.formatter(std::make_shared<HelpFormat>());
    app.set_version_flag("--version", "roll-web " ROLL_VERSION, "Print the version");
    Options options;
    app.add_option("--dir", options.dir, "State directory of rolld");
    app.add_option("--config", options.config,
                   "Configuration file with the section `http` [DIR/rolld.yaml, or "
                   "/etc/roll/rolld.yaml for /var/lib/roll]");
    app.add_option("--listen", options.listen,
                   "Address and port to listen on; overrides http.listen; port 0: any free port "
                   "[127.0.0.1:8410]");
    app.add_flag("--read-only", options.read_only, "Refuse all changes");
    CLI11_PARSE(app, argc, argv);
    spdlog::set_default_logger(spdlog::stderr_logger_mt("roll-web"));
    const io::ServiceManager manager = io::ServiceManager::from_environment();
    io::raise_file_limit();
    // Lower the priority, because rolld and the jobs of this machine come first.
    static_cast<void>(::nice(kNiceness));
    const auto status = serve(options, manager);
    return status ? *status : end_with("roll-web", status.error());
}

}  // namespace
}  // namespace roll::http

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-web", [&] { return roll::http::run(argc, argv); });
}
