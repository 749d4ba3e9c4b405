// rolld, the daemon. It reads the ledger, binds its socket, and serves until it is told to exit.
#include <csignal>
#include <functional>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/help_format.hpp"
#include "common/io/beacon.hpp"
#include "common/io/client.hpp"
#include "common/io/compat.hpp"
#include "common/io/open_files.hpp"
#include "common/io/process.hpp"
#include "common/io/service_manager.hpp"
#include "common/io/state_directory.hpp"
#include "common/json.hpp"
#include "common/log.hpp"
#include "common/program_end.hpp"
#include "common/spec/schema/units.hpp"
#include "common/time.hpp"
#include "daemon/config/config.hpp"
#include "daemon/config/option_checks.hpp"
#include "daemon/ledger/backup.hpp"
#include "daemon/ledger/lock.hpp"
#include "daemon/server/server.hpp"
#include "daemon/server/service_notice.hpp"
#include "daemon/slurm/commands.hpp"
#include "daemon/tls/certificate.hpp"

namespace roll {
namespace {

// a user may send at once as many requests as the rate allows in this time
constexpr double kBurstSeconds = 4;
// Exit status of a rolld that cannot serve because its stored data is damaged. The units of systemd
// do not restart rolld after this status.
constexpr int kExitDamaged = 6;
constexpr double kLongestWait = 86'400;  // longest --stillness and --volume-patience, in seconds

struct Options {
    std::string dir;
    std::string endpoint;
    std::string config;
    bool check_config = false;
    bool no_beacon = false;
    bool take_over = false;
    double stillness = 16;
    double volume_patience = 0;
    double rate_limit = 5000;
    std::size_t max_connections = 20'000;
    std::string job_files = "16MiB";
    std::string keep_ended;
    std::string backup;
    std::string restore;
    bool start_over = false;
    bool check = false;
    double slurm_poll = 20;
    std::string shared;
    std::string log_level = "info";
    mode_t umask = 077;  // umask at rolld's start
};

// Formats a log message as a JSON string: the message may contain quotes and a peer's text.
class JsonText final : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&,
                spdlog::memory_buf_t& line) override {
        const std::string text =
            dump(Json(std::string(message.payload.data(), message.payload.size())));
        line.append(text.data(), text.data() + text.size());
    }
    std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<JsonText>();
    }
};

Result<void> open_log(const io::StateDirectory& directory, const std::string& level) {
    try {
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("log", log_file(directory.log("rolld"))));
    } catch (const spdlog::spdlog_ex& e) {
        return fail(ErrorCode::Refused, std::string("cannot open the log: ") + e.what());
    }
    auto lines = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
    lines->add_flag<JsonText>('*').set_pattern(
        R"({"at":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","text":%*})");
    spdlog::set_formatter(std::move(lines));
    spdlog::set_level(spdlog::level::from_str(level));
    spdlog::flush_on(spdlog::level::info);
    return {};
}

std::string random_name() {
    std::string bytes(16, '\0');
    if (::getentropy(bytes.data(), bytes.size()) != 0) return std::to_string(::getpid());
    return to_hex(hash64(bytes));
}

// Returns the id of the ledger. The beacon and the rendezvous of attempts use this id. The id is
// chosen at random once and stored next to the ledger.
Result<std::string> cluster_name(const io::StateDirectory& directory) {
    const auto path = directory.root() / "cluster";
    const auto known = read_file(path);
    if (known && known->empty())
        return fail(
            ErrorCode::Corrupt,
            path.string() + " is empty; it must contain the name by which workers recognize rolld",
            "write the name back into the file, or delete the file; if you delete it, rolld does "
            "not recognize the pilots that are running now");
    if (known || known.error().code != ErrorCode::NotFound) return known;
    const std::string name = random_name();
    ROLL_TRY_VOID(write_file_atomically(path, name));
    return name;
}

// Returns the directory that workers on other nodes read: the state directory, or a directory on a
// shared volume (--shared) if the ledger is on a local disk.
io::StateDirectory shared_directory(const io::StateDirectory& directory, const Options& options) {
    if (options.shared.empty()) return directory;
    return io::StateDirectory(std::filesystem::absolute(options.shared));
}

Result<void> share_keys(const io::StateDirectory& directory, const io::StateDirectory& shared) {
    if (shared.root() == directory.root()) return {};
    ROLL_TRY_VOID(shared.make());
    for (const char* name : {"server.pub", "worker.pub", "worker.key"}) {
        ROLL_TRY(const std::string key, read_file(directory.keys() / name));
        ROLL_TRY_VOID(write_file_atomically(shared.keys() / name, key));
    }
    return {};
}

// Returns the settings for allocation requests to Slurm. Allocations start the roll-worker in the
// directory of this program, so this directory must be on a shared volume.
Result<slurm::Site> pilot_site(const io::StateDirectory& directory, mode_t umask) {
    slurm::Site site;
    site.umask = umask;
    site.directory = directory.root();
    site.worker = std::filesystem::path(io::own_program()).parent_path() / "roll-worker";
    site.logs = directory.root() / "pilots";
    site.environment = io::without_compat(io::current_environment());
    ROLL_TRY_VOID(make_directories(site.logs));
    return site;
}

// Returns the address that workers and clients connect to: `bound`, with a wildcard replaced by
// this machine's name.
std::string advertised(const std::string& bound) {
    for (const std::string wildcard : {"tcp://0.0.0.0:", "tcp://*:"}) {
        if (!bound.starts_with(wildcard)) continue;
        char name[256] = {};
        if (::gethostname(name, sizeof name - 1) != 0) return bound;
        return "tcp://" + std::string(name) + ":" + bound.substr(wildcard.size());
    }
    return bound;
}

// Returns the value of --job-files.
Result<std::uint64_t> job_files_bytes(const std::string& text) {
    constexpr std::uint64_t kMost = 1u << 30;
    if (text == "0") return std::uint64_t{0};
    ROLL_TRY(const std::uint64_t bytes, spec::parse_size(text));
    if (bytes <= kMost) return bytes;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("--job-files is {}; allowed: at most 1GiB", text));
}

Result<server::ServerOptions> server_options(const io::StateDirectory& directory,
                                             const Options& options) {
    server::ServerOptions made;
    ROLL_TRY(made.keys, io::load_or_make_curve_keys(directory.keys(), "server"));
    for (const char* peer : {"client", "worker"}) {
        ROLL_TRY(const io::CurveKeys pair,
                 io::load_or_make_curve_keys(directory.keys(), peer, directory.authorized()));
        static_cast<void>(pair);
    }
    made.endpoint = options.endpoint;
    made.secrets = directory.root();
    if (made.endpoint.empty()) {
        ROLL_TRY(made.endpoint, directory.default_endpoint());
    }
    ROLL_TRY(made.local, directory.local_socket());
    made.authorized = directory.authorized();
    const io::StateDirectory shared = shared_directory(directory, options);
    ROLL_TRY_VOID(share_keys(directory, shared));
    if (!options.no_beacon) made.beacon = shared.beacon();
    made.workers = directory.worker();
    ROLL_TRY(made.cluster, cluster_name(directory));
    ROLL_TRY(config::Config config, config::find_config(options.config, directory.root()));
    made.policy = std::move(config.policy);
    made.home = ledger::identity(directory.root());
    made.nonce = random_name();
    made.take_over = options.take_over;
    made.connections_max = options.max_connections;
    ROLL_TRY(made.job_files_bytes, job_files_bytes(options.job_files));
    made.leases.stillness = std::chrono::milliseconds(static_cast<int>(options.stillness * 1000));
    made.leases.volume_patience =
        std::chrono::milliseconds(static_cast<int>(options.volume_patience * 1000));
    made.requests_per_second = options.rate_limit;
    made.request_burst = kBurstSeconds * options.rate_limit;
    ROLL_TRY(made.site, pilot_site(shared, options.umask));
    made.pilots.poll = std::chrono::milliseconds(static_cast<int>(options.slurm_poll * 1000));
    made.pilots.missing = made.pilots.unsure = 3 * made.pilots.poll;
    made.pilots.doubt = 30 * made.pilots.poll;
    return made;
}

// Prunes the ledger: removes all jobs that ended longer than --keep-ended ago.
Result<void> prune(ledger::Ledger& ledger, const std::string& keep) {
    if (keep.empty()) return {};
    ROLL_TRY(const std::chrono::seconds kept, spec::parse_duration(keep));
    const Time now = wall_clock_now();
    ROLL_TRY(const core::State state, ledger.load());
    ROLL_TRY(const std::size_t jobs, ledger.prune(state, now - kept, now));
    if (jobs > 0)
        spdlog::info("jobs removed from the ledger: {}; all ended more than {} ago", jobs, keep);
    return {};
}

Result<void> check(const io::StateDirectory& directory) {
    if (!path_exists(directory.ledger()) && !path_exists(directory.root() / "ledger.mark"))
        return fail(ErrorCode::NotFound, "there is no ledger in " + directory.root().string(),
                    "set --dir to the state directory of rolld");
    ROLL_TRY(const ledger::Ledger ledger, ledger::Ledger::open(directory.root()));
    ROLL_TRY(const core::State state, ledger.fold());
    ROLL_TRY(const core::State served, ledger.load());
    if (state != served) {
        return fail(ErrorCode::Corrupt,
                    "ledger.snapshot differs from the state that the ledger's events give",
                    "delete ledger.snapshot; rolld creates it again");
    }
    fmt::print("{}: no damage; jobs: {}; newest event: {}\n", directory.ledger().string(),
               state.jobs.size(), ledger.newest());
    return {};
}

Result<void> back_up(const io::StateDirectory& directory, const std::string& target) {
    ROLL_TRY(const std::int64_t newest, ledger::back_up(directory.root(), target));
    fmt::print("wrote {}: all events up to event {}\n", target, newest);
    return {};
}

// Replaces the ledger by the backup `options.restore`. If `options.restore` is empty, replaces the
// ledger by an empty one.
Result<void> restore(const io::StateDirectory& directory, const Options& options) {
    const std::string& backup = options.restore;
    if (!path_exists(directory.root())) {
        if (backup.empty())
            return fail(ErrorCode::NotFound, directory.root().string() + " does not exist",
                        "set --dir to the state directory of rolld");
        ROLL_TRY_VOID(directory.make());  // a restore on a new machine
    }
    const auto beacon = io::read_beacon(shared_directory(directory, options).beacon());
    ROLL_TRY(const ledger::Restored restored,
             ledger::restore(backup, directory.root(), beacon ? beacon->incarnation + 1 : 0,
                             wall_clock_now()));
    fmt::print("{}: {}; the id of the next job is {}; the previous ledger is in {}\n",
               directory.ledger().string(),
               backup.empty() ? "empty" : fmt::format("restored up to event {}", restored.newest),
               restored.next_job, restored.before.string());
    return {};
}

// Carries out --check, --backup, --restore or --start-over. Returns nullopt if none of these
// options is given.
std::optional<Result<void>> keep_house(const Options& options) {
    const bool puts = options.start_over || !options.restore.empty();
    if (!options.check && options.backup.empty() && !puts) return std::nullopt;
    auto directory = io::StateDirectory::find(options.dir);
    if (!directory) return tl::unexpected(directory.error());
    if (options.check) return check(*directory);
    if (!options.backup.empty()) return back_up(*directory, options.backup);
    return restore(*directory, options);
}

// Prints the error, if there is one. Returns the exit status.
int tell(const Result<void>& done) { return done ? 0 : end_with("rolld", done.error()); }

// Waits until a killed rolld has exited. A killed rolld holds the ledger's lock until the kernel
// has freed its memory. Does not wait for a rolld that still answers.
void await_end_of_last(const io::StateDirectory& directory) {
    constexpr std::chrono::seconds kPatience{15};
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto answers = [&] {
        auto client = io::Client::connect(directory);
        return client && client->ask("version", Json::object(), std::chrono::seconds(1));
    };
    for (bool told = false; ledger::is_locked(directory.root()) && !answers();) {
        if (std::chrono::steady_clock::now() > deadline) return;
        if (!std::exchange(told, true))
            fmt::print(stderr, "rolld: waiting up to {} s for the previous rolld to end\n",
                       kPatience.count());
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

// The pid file. It is written before the ledger is read, so that clients wait while this process
// starts.
class PidFile {
  public:
    explicit PidFile(std::filesystem::path path) : path_(std::move(path)) {}
    PidFile(const PidFile&) = delete;
    PidFile& operator=(const PidFile&) = delete;
    ~PidFile() { remove(); }
    Result<void> write() const {
        return write_file_atomically(path_, std::to_string(::getpid()) + "\n");
    }
    void remove() const { ::unlink(path_.c_str()); }

  private:
    std::filesystem::path path_;
};

// Also reads the files of http.tls, as roll-web does at its start.
Result<void> check_config(const Options& options, const io::StateDirectory& directory) {
    ROLL_TRY(const config::Config config, config::find_config(options.config, directory.root()));
    if (!config.http.certificate.empty())
        ROLL_TRY_VOID(tls::Certificate::read(config.http.certificate, config.http.key));
    fmt::print("the configuration is valid\n");
    return {};
}

Result<void> serve(const Options& options, const io::ServiceManager& manager) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(options.dir));
    if (options.check_config) {
        return check_config(options, directory);
    }
    ROLL_TRY_VOID(check_port(options.endpoint));
    ROLL_TRY_VOID(directory.check_own());
    ROLL_TRY_VOID(directory.make());
    manager.tell("STATUS=reads the ledger");
    await_end_of_last(directory);
    // Take the lock before opening the log, which a running rolld may be writing.
    ROLL_TRY_VOID(ledger::Lock::take(directory.root()));
    ROLL_TRY_VOID(open_log(directory, options.log_level));
    ROLL_TRY(ledger::Ledger ledger, ledger::Ledger::open(directory.root()));
    const PidFile pid(directory.pid("rolld"));
    ROLL_TRY_VOID(pid.write());
    ROLL_TRY_VOID(prune(ledger, options.keep_ended));
    ROLL_TRY(server::ServerOptions server_options_, server_options(directory, options));
    const std::string local = server_options_.local;
    boost::asio::io_context io(1);
    ROLL_TRY(const std::unique_ptr<server::Server> server,
             server::Server::make(io, std::move(server_options_), std::move(ledger)));
    boost::asio::signal_set signals(io, SIGTERM, SIGINT);
    signals.async_wait([&](const boost::system::error_code& error, int signal) {
        if (error) return;
        spdlog::info("ends on signal {}", signal);
        manager.tell("STOPPING=1");
        server->stop();
    });
    boost::asio::signal_set hangups(io, SIGHUP);
    std::function<void()> reread = [&] {
        hangups.async_wait([&](const boost::system::error_code& error, int) {
            if (error) return;
            auto config = config::find_config(options.config, directory.root());
            if (config) {
                server->set_policy(std::move(config->policy));
                spdlog::info("the configuration was read again and is now in effect");
            } else {
                spdlog::warn("the previous configuration stays in effect: {}",
                             config.error().message);
            }
            reread();
        });
    };
    reread();
    ROLL_TRY_VOID(write_file_atomically(directory.local_file(), local));
    ROLL_TRY_VOID(
        write_file_atomically(directory.endpoint_file(), advertised(server->endpoint()) + "\n"));
    const io::StateDirectory shared = shared_directory(directory, options);
    ROLL_TRY_VOID(
        write_file_atomically(shared.endpoint_file(), advertised(server->endpoint()) + "\n"));
    spdlog::info("serves {} at {}", directory.root().string(), server->endpoint());
    const server::ServiceNotice notice(io, manager, *server);
    auto ended = server->run();
    // Exit with the status of a failure, after which systemd restarts rolld. The next start checks
    // the stored bytes, and ends with kExitDamaged if they are damaged.
    if (!ended && ended.error().code == ErrorCode::Corrupt) ended.error().code = ErrorCode::Failed;
    pid.remove();
    if (!server->let_go()) {
        spdlog::warn(
            "rolld stops, but the file system that holds its beacon file does not respond");
        ::_exit(tell(ended));
    }
    return ended;
}

void add_house(CLI::App& app, Options& options) {
    auto* house =
        app.add_option_group("house", "Actions that rolld carries out instead of serving");
    house->add_flag("--check", options.check, "Look for damage in the ledger");
    house
        ->add_option("--backup", options.backup,
                     "Copy the ledger to DIR; works while rolld is running")
        ->check(directory_name());
    house->add_option("--restore", options.restore, "Replace the ledger by the backup in DIR")
        ->check(directory_name());
    house->add_flag("--start-over", options.start_over, "Replace a damaged ledger by an empty one");
    house->require_option(0, 1);
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app("rolld: Roll's coordinator. Keeps the ledger and schedules jobs onto workers.");
    app.formatter(std::make_shared<HelpFormat>());
    app.set_version_flag("--version", "rolld " ROLL_VERSION, "Print the version");
    app.add_option("--dir", options.dir, "State directory [$ROLL_DIR, else $XDG_STATE_HOME/roll]");
    app.add_option("--endpoint", options.endpoint, "Where to listen, e.g. tcp://0.0.0.0:7070");
    app.add_option("--config", options.config,
                   "Configuration file [DIR/rolld.yaml, or /etc/roll/rolld.yaml for "
                   "/var/lib/roll]; SIGHUP makes rolld read it again");
    app.add_flag("--check-config", options.check_config,
                 "Check the configuration, print its problems, and exit");
    app.add_flag("--no-beacon", options.no_beacon,
                 "Write no beacon file (heartbeat of rolld on a shared volume), for clusters "
                 "without a shared volume");
    app.add_flag(
        "--take-over", options.take_over,
        "Serve although another rolld wrote the beacon file; use only if that rolld is dead");
    app.add_option("--stillness", options.stillness,
                   "Take over from another rolld only if its beacon file does not change for this "
                   "many seconds [16]")
        ->check(within(0, kLongestWait));
    app.add_option(
           "--volume-patience", options.volume_patience,
           "End if rolld cannot read its beacon file (heartbeat) for this many seconds [never]")
        ->check(within(0, kLongestWait));
    app.add_option("--rate-limit", options.rate_limit,
                   "Requests per second that each user may send, in bursts of up to four times as "
                   "many; 0 means no limit [5000]")
        ->check(within(0, 1e9));
    app.add_option("--max-connections", options.max_connections,
                   "Maximum number of connected clients; further clients are refused [20000]")
        ->check(within(1, 1e6));
    app.add_option("--job-files", options.job_files,
                   "Maximum size of all files that a job may send with `files`, e.g. 64MiB; 0 "
                   "refuses such jobs [16MiB]");
    app.add_option("--keep-ended", options.keep_ended,
                   "At each start, remove jobs that ended longer ago than this, e.g. 90d [never]");
    add_house(app, options);
    app.add_option("--shared", options.shared,
                   "Directory on a volume that all nodes share; pilots read their keys and rolld's "
                   "endpoint there [--dir]");
    app.add_option("--slurm-poll", options.slurm_poll, "Seconds between two squeue calls [20]")
        ->check(within(0.2, 3600));
    app.add_option("--log-level", options.log_level,
                   "Least severe messages to log: debug, info, warn or error")
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    const io::ServiceManager manager = io::ServiceManager::from_environment();
    options.umask = ::umask(077);
    io::raise_file_limit();
    // Log to stderr until the log file is open, because stdout is for output that the user asked
    // for.
    spdlog::set_default_logger(spdlog::stderr_logger_st("rolld"));
    const auto kept = keep_house(options);
    const auto served = kept ? *kept : serve(options, manager);
    if (!served && !kept && !options.check_config)
        spdlog::critical("ended: {}", served.error().message);
    const int status = tell(served);
    const bool damaged = !served && served.error().code == ErrorCode::Corrupt;
    return damaged && !kept ? kExitDamaged : status;
}

}  // namespace
}  // namespace roll

int main(int argc, char** argv) {
    return roll::with_last_resort("rolld", [&] { return roll::run(argc, argv); });
}
