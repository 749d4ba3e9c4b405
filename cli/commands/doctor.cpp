#include "cli/commands/doctor.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/client/local.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/keys.hpp"
#include "cli/text/render.hpp"
#include "common/io/curve_keys.hpp"
#include "common/io/run.hpp"
#include "common/io/state_directory.hpp"
#include "common/processor.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Checks that the state directory of a rolld is on a local disk. A state directory that holds only
// a key may be on any volume.
Finding check_volume(const io::StateDirectory& state) {
    struct statfs info {};
    // Before the first `rollctl up`, the nearest existing parent of the state directory is checked.
    fs::path place = state.root();
    while (::statfs(place.c_str(), &info) != 0 && place.has_relative_path())
        place = place.parent_path();
    const std::string root = state.root().string();
    const std::string name = network_file_system(static_cast<std::uint64_t>(info.f_type));
    if (state.is_key_holders()) return {"volume", true, root + " has no ledger", ""};
    if (name.empty()) return {"volume", true, root + " is not on a network file system", ""};
    return {"volume", false, fmt::format("{} is on {}; the ledger needs a local disk", root, name),
            "rollctl down, move the directory to a local disk, and name it in ROLL_DIR"};
}

Finding check_directory(const io::StateDirectory& state) {
    const fs::path& root = state.root();
    struct stat status {};
    if (::stat(root.c_str(), &status) != 0) {
        return {"state directory", false, root.string() + " does not exist", "rollctl up"};
    }
    // Root may use the rolld of every user, for example that of a system installation.
    const bool is_root = ::geteuid() == 0;
    if (status.st_uid != ::geteuid() && !is_root) {
        return {"state directory", false, root.string() + " belongs to another user",
                "use --dir with a directory of your own"};
    }
    if ((status.st_mode & 077) != 0) {
        return {"state directory", false, root.string() + " is accessible to other users",
                "chmod 700 " + root.string()};
    }
    if (::access(root.c_str(), W_OK) != 0) {
        return {"state directory", false, root.string() + " is not writable",
                "chmod u+w " + root.string()};
    }
    return {"state directory", true, root.string(), ""};
}

// Checks that the user's key pairs exist. The owner of a rolld needs three pairs: server, client
// and worker. A user with a key for another user's rolld needs only the pair of that key: client or
// worker.
Finding check_keys(const io::StateDirectory& state) {
    std::vector<std::string> names = {"server", "client", "worker"};
    if (state.is_key_holders()) {
        const bool worker = fs::exists(state.keys() / "worker.key");
        names = {worker ? "worker" : "client"};
    }
    for (const std::string& name : names) {
        const auto keys = io::load_curve_keys(state.keys(), name);
        if (keys) continue;
        if (keys.error().code == ErrorCode::Refused)
            return {"keys", false, keys.error().message,
                    fmt::format("chmod 600 {}/{}.key", state.keys().string(), name)};
        return {"keys", false, keys.error().message,
                state.is_key_holders() ? "ask the operator of rolld for a new key" : "rollctl up"};
    }
    const std::string whose =
        state.is_key_holders()
            ? fmt::format(" (a {} key of a rolld that another user runs)", names[0])
            : "";
    return {"keys", true, state.keys().string() + whose, ""};
}

// Reports which other users may use this rolld. The jobs of all users run as one Unix user and can
// read each other's files.
Finding check_users(const io::StateDirectory& state) {
    if (state.is_key_holders())
        return {"users", true,
                "all users' jobs run as one Unix user, so they can read each other's files and "
                "keys",
                ""};
    std::string names;
    for (const auto& [key, name] : io::read_authorized(state.authorized()))
        if (name.starts_with("client-")) names += (names.empty() ? "" : ", ") + name;
    if (names.empty())
        return {"users", true, "only " + user_name() + ", because nobody else has a key", ""};
    return {"users", true, trust_text(names), ""};
}

Finding check_daemon(const Context& context, const io::StateDirectory& state) {
    const auto remedy = [&](const char* operators) {
        return std::string(state.is_key_holders() ? kAskOperator : operators);
    };
    auto daemon = Daemon::connect(context);
    if (!daemon) return {"rolld", false, daemon.error().message, remedy("rollctl up")};
    const auto version = daemon->ask(protocol::VersionArgs{});
    const std::string anew = remedy("rollctl down; rollctl up");
    if (!version) return {"rolld", false, version.error().message, anew};
    const std::string text = field_text(*version, "version");
    if (text != ROLL_VERSION) {
        return {"rolld", false, fmt::format("is version {}, rollctl is {}", text, ROLL_VERSION),
                anew};
    }
    return {"rolld", true, "version " + text + ", process " + field_text(*version, "pid"), ""};
}

Finding check_worker(const Context& context, const io::StateDirectory& state) {
    const std::string remedy = state.is_key_holders() ? kAskOperator : "rollctl up";
    auto daemon = Daemon::connect(context);
    if (!daemon) return {"worker", false, "unknown, because rolld does not run", remedy};
    const Json reply = daemon->ask(protocol::NodesArgs{}).value_or(Json::object());
    const Json nodes = reply.value("nodes", Json::array());
    if (nodes.empty()) return {"worker", false, "no worker is registered", remedy};
    std::string names;
    for (const Json& node : nodes) names += (names.empty() ? "" : ", ") + field_text(node, "node");
    return {"worker", true, names, ""};
}

Finding check_space(const io::StateDirectory& state) {
    constexpr std::uintmax_t kLeast = 200u << 20;
    fs::path place = state.root();
    std::error_code error;
    while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
    const fs::space_info space = fs::space(place, error);
    if (error) return {"disk space", false, "unknown: " + error.message(), "df " + place.string()};
    const std::string left = amount_text(static_cast<double>(space.available)) + "B free";
    if (space.available >= kLeast) return {"disk space", true, left, ""};
    return {"disk space", false, "only " + left + " on the volume of " + place.string(),
            "free some space: rolld rejects new jobs when this volume is full"};
}

Finding check_processor() {
    const auto found = find_processor();
    if (!found) return {"processor", false, found.error().message, "unset ROLL_PROCESSOR"};
    return {"processor", true, processor_text(*found), ""};
}

std::vector<Finding> check_programs() {
    std::vector<Finding> findings;
    for (const char* name : {"rolld", "roll-worker", "roll-convert", "roll-rank"}) {
        const auto path = program_path(name);
        findings.push_back({name, path.has_value(), path ? *path : path.error().message,
                            path ? "" : path.error().hint});
    }
    return findings;
}

// Reports the property `what` of each node's worker. Adds `advice` if the property of a worker
// contains `weak`. Says `none` if no worker reports the property; workers of older versions do not.
Finding check_workers(const Context& context, const char* what, const char* weak, const char* none,
                      const char* advice) {
    auto daemon = Daemon::connect(context);
    if (!daemon) return {what, true, "unknown, because rolld does not run", ""};
    const Json reply = daemon->ask(protocol::NodesArgs{}).value_or(Json::object());
    std::string all;
    bool is_weak = false;
    for (const Json& node : reply.value("nodes", Json::array())) {
        const std::string value = field_text(node, what);
        if (value.empty()) continue;
        is_weak |= value.find(weak) != std::string::npos;
        all += (all.empty() ? "" : ", ") + field_text(node, "node") + ": " + value;
    }
    if (all.empty()) return {what, true, none, ""};
    return {what, true, all, is_weak ? advice : ""};
}

// Reports how each node's worker isolates the processes of its jobs.
Finding check_walls(const Context& context) {
    return check_workers(
        context, "wall", "marks", "no worker reports how it isolates the processes of its jobs",
        "give roll-worker its own cgroup v2 (systemd: Delegate=yes). With `marks`, roll-worker "
        "finds the processes of a job by their environment variables ROLL_*. If roll-worker and "
        "the job's supervisor process (guard) are killed together, a process without these "
        "variables keeps running");
}

// Reports how each node's worker enforces the jobs' limits on memory and CPUs.
Finding check_limits(const Context& context) {
    return check_workers(
        context, "limits", "not enforced", "no worker reports how it limits memory and CPUs",
        "give roll-worker its own cgroup (systemd: Delegate=yes). Without a cgroup, the job's "
        "supervisor process (guard) measures the job's memory at intervals. A job may exceed "
        "resources.memory for up to a second before the guard ends the job");
}

// Checks roll-rank's shared libraries with ldd, without running roll-rank.
Finding check_libtorch() {
    const auto rank = program_path("roll-rank");
    if (!rank)
        return {"LibTorch", false, "unknown, because roll-rank is missing", rank.error().hint};
    const auto done =
        io::run({.arguments = {"ldd", *rank}, .environment = io::current_environment()}, {});
    if (!done) return {"LibTorch", false, "cannot run ldd", "apt-get install libc-bin"};
    const std::string_view text = done->output;
    std::string missing;
    for (std::size_t at = text.find(" => not found"); at != text.npos && missing.empty();) {
        const std::size_t start = text.rfind('\t', at) + 1;
        missing = text.substr(start, at - start);
    }
    if (missing.empty()) return {"LibTorch", true, "all libraries of roll-rank are found", ""};
    return {"LibTorch", false, missing + " not found", "packaging/setup"};
}

}  // namespace

std::string network_file_system(std::uint64_t type) {
    switch (type) {
        case 0x6969: return "NFS";
        case 0xff534d42: return "CIFS";
        case 0xfe534d42: return "SMB";
        case 0x0bd00bd0: return "Lustre";
        case 0x47504653: return "GPFS";
        case 0x19830326: return "BeeGFS";
        case 0x00c36400: return "CephFS";
        case 0x5346414f: return "AFS";
        default: return "";
    }
}

Result<int> run_doctor(const Context& context, bool slurm) {
    ROLL_TRY(const io::StateDirectory state, io::StateDirectory::find(context.directory));
    std::vector<Finding> findings = {check_directory(state), check_volume(state), check_keys(state),
                                     check_users(state)};
    // The following checks send requests to rolld. rolld answers only the owner of a client's key.
    // A user who holds only a worker's key must read the worker's log instead.
    if (!state.is_key_holders() || fs::exists(state.keys() / "client.key")) {
        findings.push_back(check_daemon(context, state));
        findings.push_back(check_worker(context, state));
        findings.push_back(check_walls(context));
        findings.push_back(check_limits(context));
    }
    findings.push_back(check_space(state));
    for (Finding& finding : check_programs()) findings.push_back(std::move(finding));
    findings.push_back(check_libtorch());
    findings.push_back(check_processor());
    if (slurm) {
        // Do not report missing workers, because Slurm allocations start workers when they are
        // needed.
        std::erase_if(findings, [](const Finding& finding) { return finding.what == "worker"; });
        for (Finding& finding : slurm_findings(context)) findings.push_back(std::move(finding));
    }
    bool good = true;
    Json list = Json::array();
    for (const Finding& finding : findings) {
        good &= finding.good;
        list.push_back({{"check", finding.what},
                        {"good", finding.good},
                        {"detail", finding.detail},
                        {"remedy", finding.remedy}});
        if (context.json) continue;
        print(fmt::format("{:<5}{:<18}{}\n", finding.good ? "ok" : "BAD", finding.what,
                          finding.detail));
        if (!finding.remedy.empty()) print(fmt::format("     {:<18}-> {}\n", "", finding.remedy));
    }
    if (context.json) {
        print_json({{"schema", "roll.doctor/1"}, {"good", good}, {"checks", list}});
    }
    return good ? 0 : 1;
}

}  // namespace roll::cli
