#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/client/local.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/counted.hpp"
#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/io/process_label.hpp"
#include "common/io/state_directory.hpp"

namespace roll::cli {
namespace {

constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr auto kPause = std::chrono::milliseconds(50);
constexpr double kJustNowMs = 3000;

// A program's output file, and the file's size before the program was started.
struct Output {
    std::filesystem::path path;
    std::uintmax_t earlier = 0;
    explicit Output(std::filesystem::path file) : path(std::move(file)) {
        std::error_code none;
        earlier = std::filesystem::file_size(path, none);
        if (none) earlier = 0;
    }
};

// Polls until `ready` returns a value that is not null. Fails if the program ends first, or if the
// program is not ready in time.
template <class Ready>
Result<Json> wait_ready(const std::string& program, pid_t pid, const Output& log,
                        const Ready& ready) {
    const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
    for (;;) {
        if (Json value = ready(); !value.is_null()) return value;
        const bool gone = wait_gone(pid, std::chrono::milliseconds(0));
        if (gone || std::chrono::steady_clock::now() > deadline) {
            constexpr std::size_t kLines = 5;
            return fail(ErrorCode::Failed,
                        fmt::format("{} {}; the last lines of {}:\n{}", program,
                                    gone ? "ended right after its start" : "does not answer",
                                    log.path.string(), last_lines(log.path, kLines, log.earlier)),
                        "rollctl doctor");
        }
        pause(kPause);
    }
}

// Returns the TCP endpoint at which the previous rolld listened. Empty if there was no previous
// rolld, or if it listened only on this machine.
std::string earlier_tcp(const io::StateDirectory& state) {
    const std::string endpoint = state.read_endpoint().value_or("");
    return endpoint.starts_with("tcp://") ? endpoint : "";
}

// Returns the value of --endpoint for the new rolld. If the previous rolld was killed, its pid file
// still exists. The new rolld then listens at the previous rolld's endpoint, because workers and
// users on other machines still connect to that endpoint.
std::string endpoint_of(const UpOptions& options, const io::StateDirectory& state) {
    const std::string earlier = earlier_tcp(state);
    if (!options.endpoint.empty() || earlier.empty()) return options.endpoint;
    if (!path_exists(state.pid("rolld"))) {
        say(
            fmt::format("rolld now listens on this machine only; the previous rolld listened on {} "
                        "for other users and machines",
                        earlier));
        say("  next: rollctl down; rollctl up --endpoint " + earlier);
        return "";
    }
    const std::size_t port = earlier.rfind(':');
    const std::string host = earlier.substr(6, port - 6);
    // If the previous rolld listened on 0.0.0.0, the stored endpoint has this machine's name
    // instead. A socket cannot be bound to a name, so replace the name by 0.0.0.0.
    const bool is_name =
        host.find_first_not_of("0123456789.") != host.npos && host.find(':') == host.npos;
    const std::string endpoint = "tcp://" + (is_name ? "0.0.0.0" : host) + earlier.substr(port);
    say(fmt::format("the previous rolld was killed; the new rolld also listens on {}", endpoint));
    return endpoint;
}

Result<Json> ensure_rolld(const Context& context, const UpOptions& options,
                          const io::StateDirectory& state) {
    const auto version = [&]() -> Json {
        auto daemon = Daemon::connect(context);
        if (!daemon) return nullptr;
        return daemon->ask(protocol::VersionArgs{}).value_or(Json());
    };
    const Output log(state.root() / "rolld.out");
    if (const auto pid = io::running(state.pid("rolld"), "rolld")) {
        if (!options.endpoint.empty())
            say("rolld already runs; --endpoint takes effect after rollctl down");
        return wait_ready("rolld", *pid, log, version);
    }
    ROLL_TRY(const std::string program, program_path("rolld"));
    std::vector<std::string> arguments = {program, "--dir", state.root()};
    if (const std::string endpoint = endpoint_of(options, state); !endpoint.empty())
        arguments.insert(arguments.end(), {"--endpoint", endpoint});
    if (!options.shared.empty()) arguments.insert(arguments.end(), {"--shared", options.shared});
    if (options.slurm_poll > 0)
        arguments.insert(arguments.end(), {"--slurm-poll", fmt::format("{}", options.slurm_poll)});
    ROLL_TRY(const pid_t pid, start_in_background(arguments, log.path));
    return wait_ready("rolld", pid, log, version);
}

// Returns the nodes with a recent heartbeat; null if none of these nodes is the worker of process
// `pid`. rolld's reply also has nodes whose workers have ended.
Json nodes_with(const Context& context, pid_t pid) {
    auto daemon = Daemon::connect(context);
    if (!daemon) return nullptr;
    const Json reply = daemon->ask(protocol::NodesArgs{}).value_or(Json::object());
    const std::string own = io::process_label(pid);
    Json list = Json::array();
    bool found = false;
    for (const Json& node : reply.value("nodes", Json::array())) {
        const Json heard = node.value("heard_ms_ago", Json());
        if (!heard.is_number() || heard.get<double>() >= kJustNowMs) continue;
        // An older rolld that still runs does not name the processes of its workers.
        found |= !node.contains("process") || field_text(node, "process") == own;
        list.push_back(node);
    }
    return found ? list : Json();
}

Result<Json> ensure_worker(const Context& context, const UpOptions& options,
                           const io::StateDirectory& state) {
    const Output log(state.root() / "worker.out");
    if (const auto pid = io::running(state.pid("worker"), "roll-worker")) {
        if (options.slots || options.gpus) {
            say("a worker already runs; --slots and --gpus take effect after rollctl down");
        }
        return wait_ready("roll-worker", *pid, log, [&] { return nodes_with(context, *pid); });
    }
    ROLL_TRY(const std::string program, program_path("roll-worker"));
    std::vector<std::string> arguments = {program, "--dir", state.root()};
    const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
    arguments.emplace_back("--slots");
    arguments.push_back(fmt::format("{}", options.slots.value_or(static_cast<int>(cores))));
    if (options.gpus) {
        arguments.emplace_back("--gpus");
        arguments.push_back(fmt::format("{}", *options.gpus));
    }
    if (!options.memory.empty()) arguments.push_back("--memory=" + options.memory);
    if (options.cpus) arguments.push_back(fmt::format("--cpus={}", *options.cpus));
    ROLL_TRY(const pid_t pid, start_in_background(arguments, log.path));
    return wait_ready("roll-worker", pid, log, [&] { return nodes_with(context, pid); });
}

}  // namespace

Result<int> run_up(const Context& context, const UpOptions& options) {
    ROLL_TRY(const io::StateDirectory state, io::StateDirectory::find(context.directory));
    ROLL_TRY_VOID(state.check_own());
    ROLL_TRY_VOID(state.make());
    ROLL_TRY(const Json version, ensure_rolld(context, options, state));
    Json nodes = Json::array();
    if (!options.no_worker) {
        ROLL_TRY(nodes, ensure_worker(context, options, state));
    }
    if (context.json) {
        print_json({{"schema", "roll.up/1"},
                    {"directory", state.root().string()},
                    {"daemon", version},
                    {"nodes", nodes}});
        return 0;
    }
    say(fmt::format("rolld runs (process {}), state in {}", field_text(version, "pid"),
                    state.root().string()));
    for (const Json& node : nodes) {
        const auto amount = [&](const char* key, const char* unit) {
            return counted(node.value(key, std::int64_t{0}), unit);
        };
        say(fmt::format("worker {} with {} and {}", field_text(node, "node"),
                        amount("slots", "slot"), amount("gpus", "GPU")));
    }
    say("  next: rollctl submit FILE, or rollctl submit -- PROGRAM ARGUMENT...");
    return 0;
}

}  // namespace roll::cli
