// roll-notify notifies other programs of the events of jobs. It sends an HTTP POST or runs a
// command, with signatures and retries (docs/notify.md).
#include <csignal>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/files.hpp"
#include "common/help_format.hpp"
#include "common/io/client.hpp"
#include "common/io/service_manager.hpp"
#include "common/program_end.hpp"
#include "daemon/notify/courier.hpp"

namespace roll::notify {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 500ms;

volatile std::sig_atomic_t g_ended = 0;

struct Options {
    std::string dir, config;
    bool check = false;
};

// Opens the couriers. Waits if rolld does not run yet.
Result<bool> open_all(std::vector<Courier>& couriers) {
    for (Courier& courier : couriers) {
        for (;;) {
            const auto opened = courier.open();
            if (opened) break;
            if (opened.error().code != ErrorCode::Unavailable)
                return tl::unexpected(opened.error());
            if (g_ended != 0) return false;
            std::this_thread::sleep_for(kPoll);
        }
    }
    return true;
}

Result<int> serve(const Options& options, const io::ServiceManager& manager) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(options.dir));
    const std::filesystem::path config = options.config.empty()
                                             ? directory.root() / "notify.yaml"
                                             : std::filesystem::path(options.config);
    ROLL_TRY(const std::string text, read_file(config));
    ROLL_TRY(const std::vector<Target> targets, read_targets(text, config));
    if (options.check) {
        fmt::print("{}: {} target{}\n", config.string(), targets.size(),
                   targets.size() == 1 ? "" : "s");
        return 0;
    }
    const auto folder = directory.root() / "notify";
    ROLL_TRY_VOID(make_directories(folder));
    const io::LastingClient rolld(directory, 10s);
    std::vector<Courier> couriers;
    for (const Target& target : targets)
        couriers.emplace_back(target, folder / (target.name + ".position"), rolld, deliver);
    manager.tell("READY=1\nSTATUS=waits for rolld");
    ROLL_TRY(const bool opened, open_all(couriers));
    if (opened) {
        const char* const plural = targets.size() == 1 ? "" : "s";
        spdlog::info("notifies {} target{} of {}", targets.size(), plural,
                     directory.root().string());
        manager.tell(fmt::format("STATUS=notifies {} target{}", targets.size(), plural));
    }
    while (g_ended == 0) {
        for (Courier& courier : couriers) courier.work(Courier::Clock::now());
        std::this_thread::sleep_for(kPoll);
    }
    manager.tell("STOPPING=1");
    return 0;
}

int run(int argc, char** argv) {
    CLI::App app{"roll-notify: tells other programs about the events of jobs"};
    app.formatter(std::make_shared<HelpFormat>());
    app.set_version_flag("--version", "roll-notify " ROLL_VERSION, "Print the version");
    Options options;
    app.add_option("--dir", options.dir, "State directory of rolld");
    app.add_option("--config", options.config, "File with the targets [notify.yaml in --dir]");
    app.add_flag("--check", options.check, "Check the file and end");
    CLI11_PARSE(app, argc, argv);
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { g_ended = 1; });
    std::signal(SIGPIPE, SIG_IGN);
    const io::ServiceManager manager = io::ServiceManager::from_environment();
    const auto status = serve(options, manager);
    return status ? *status : end_with("roll-notify", status.error());
}

}  // namespace
}  // namespace roll::notify

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-notify", [&] { return roll::notify::run(argc, argv); });
}
