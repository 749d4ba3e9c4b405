// `rollctl doctor --slurm`: checks that rolld can request Slurm allocations from this machine.
#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/client/local.hpp"
#include "cli/commands/doctor.hpp"
#include "cli/text/render.hpp"
#include "common/io/compat.hpp"
#include "common/io/process.hpp"
#include "common/io/state_directory.hpp"
#include "common/protocol/allocation_operations.hpp"
#include "daemon/slurm/parse.hpp"
#include "daemon/slurm/run.hpp"

namespace roll::cli {
namespace {

constexpr auto kSlurmPatience = std::chrono::seconds(20);

slurm::Site here(const Context& context) {
    slurm::Site site;
    auto daemon = Daemon::connect(context);
    if (daemon)
        site.directory =
            daemon->ask(protocol::AllocListArgs{}).value_or(Json()).value("shared", "");
    site.worker = program_path("roll-worker").value_or("roll-worker");
    site.environment = io::without_compat(io::current_environment());
    return site;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Runs each of Slurm's commands with --version, which does not contact slurmctld.
Finding check_commands(const slurm::Site& site) {
    std::string version;
    for (const char* program : {"sbatch", "squeue", "scancel", "sinfo", "srun"}) {
        const slurm::Command command{{program, "--version"}, slurm::scrub(site.environment), {}};
        const auto done = slurm::run(command, kSlurmPatience);
        if (done.exit_code != 0 && !done.errors.empty() && done.exit_code != 127)
            return {"Slurm commands", false,
                    fmt::format("{} --version fails: {}", program, first_line(done.errors)),
                    "set SLURM_CONF to the path of slurm.conf"};
        if (done.exit_code != 0 || done.timed_out)
            return {"Slurm commands", false, fmt::format("cannot run {} on this machine", program),
                    "apt-get install slurm-client, or add Slurm's bin directory to PATH"};
        version = first_line(done.output);
    }
    return {"Slurm commands", true, version, ""};
}

Finding check_controller(const slurm::Site& site) {
    const auto done = slurm::run(slurm::queue_command(site), kSlurmPatience);
    const auto rows = slurm::parse_queue(done.output);
    if (done.timed_out || done.exit_code != 0)
        return {"slurmctld", false,
                done.timed_out ? "does not answer within 20 s" : first_line(done.errors),
                "run `scontrol ping`; check SLURM_CONF and that munged runs"};
    if (!rows)
        return {"slurmctld", false, rows.error().message,
                "please report this with the output of `squeue --version`"};
    return {"slurmctld", true, fmt::format("answers; your jobs: {}", rows->size()), ""};
}

Finding check_partitions(const slurm::Site& site) {
    const auto done = slurm::run(slurm::partitions_command(site), kSlurmPatience);
    const auto rows = slurm::parse_partitions(done.output);
    if (done.timed_out || done.exit_code != 0 || !rows || rows->empty())
        return {"partitions", false, "sinfo shows no partition", "sinfo"};
    std::string text;
    bool any = false;
    for (const slurm::PartitionRow& row : *rows) {
        any |= row.up;
        text += fmt::format("{}{}: {} x {} CPU{}, {} GPU{}{}", text.empty() ? "" : "; ", row.name,
                            row.nodes, row.cpus, row.cpus == 1 ? "" : "s", row.gpus,
                            row.gpus == 1 ? "" : "s", row.up ? "" : " (down)");
    }
    if (any) return {"partitions", true, text, ""};
    return {"partitions", false, text,
            "ask an administrator to run `scontrol update partition=NAME state=up`"};
}

// Checks that `path` may be on a shared file system: it must not be in /tmp, in /run or in
// memory.
Finding check_shared(const char* what, const std::string& path, const std::string& remedy) {
    constexpr long kTmpfs = 0x01021994;
    constexpr long kRamfs = 0x858458f6;
    struct statfs info {};
    if (path.empty()) return {what, false, "unknown, because rolld does not run", "rollctl up"};
    if (::statfs(path.c_str(), &info) != 0)
        return {what, false, path + " cannot be accessed", remedy};
    const bool local = path.starts_with("/tmp/") || path.starts_with("/run/") ||
                       info.f_type == kTmpfs || info.f_type == kRamfs;
    if (local) return {what, false, path + " exists on this machine only", remedy};
    return {what, true, path + " (must be the same directory on every node)", ""};
}

Finding check_endpoint(const Context& context) {
    const auto state = io::StateDirectory::find(context.directory);
    const auto endpoint = state ? state->read_endpoint() : tl::unexpected(state.error());
    if (!endpoint) return {"endpoint", false, endpoint.error().message, "rollctl up"};
    const bool local = endpoint->starts_with("ipc:") || endpoint->starts_with("tcp://127.") ||
                       endpoint->starts_with("tcp://localhost");
    if (!local) return {"endpoint", true, *endpoint, ""};
    return {"endpoint", false, *endpoint + " is not reachable from other nodes",
            "rollctl down; rollctl up --endpoint tcp://0.0.0.0:7070"};
}

// Checks each allocation queue with `sbatch --test-only`, which submits nothing.
std::vector<Finding> check_queues(const Context& context, const slurm::Site& site) {
    std::vector<Finding> findings;
    auto daemon = Daemon::connect(context);
    const Json reply = daemon ? daemon->ask(protocol::AllocListArgs{}).value_or(Json()) : Json();
    for (const Json& queue : reply.value("queues", Json::array())) {
        const std::string name = field_text(queue, "name");
        const Json order = daemon->ask(protocol::AllocDryRunArgs{.queue = name}).value_or(Json());
        slurm::Command command{order.value("command", std::vector<std::string>{}),
                               slurm::scrub(site.environment), order.value("script", "")};
        if (command.arguments.empty()) continue;
        command.arguments.insert(command.arguments.begin() + 1, "--test-only");
        const auto done = slurm::run(command, kSlurmPatience);
        const bool good = !done.timed_out && done.exit_code == 0;
        const bool paused = field_text(queue, "state") == "paused";
        const std::string detail =
            paused ? "paused: " + field_text(queue, "reason") : first_line(done.errors);
        findings.push_back({"queue " + name, good && !paused, detail,
                            !good    ? "rollctl alloc remove " + name + ", then add it again"
                            : paused ? "rollctl alloc resume " + name
                                     : ""});
    }
    if (findings.empty() && daemon)
        findings.push_back({"queues", false, "there is no allocation queue",
                            "rollctl alloc add NAME --partition P --gpus N --time T"});
    return findings;
}

}  // namespace

std::vector<Finding> slurm_findings(const Context& context) {
    const slurm::Site site = here(context);
    std::vector<Finding> findings = {check_commands(site)};
    if (!findings.front().good) return findings;
    findings.push_back(check_controller(site));
    findings.push_back(check_partitions(site));
    findings.push_back(
        check_shared("shared directory", site.directory,
                     "rollctl down; rollctl up --shared DIR, on a volume that all nodes mount"));
    findings.push_back(
        check_shared("roll-worker", site.worker, "install Roll on a volume that all nodes mount"));
    findings.push_back(check_endpoint(context));
    for (Finding& finding : check_queues(context, site)) findings.push_back(std::move(finding));
    return findings;
}

}  // namespace roll::cli
