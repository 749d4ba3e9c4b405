#include <csignal>
#include <cstdio>
#include <cstring>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/help_format.hpp"
#include "common/io/process.hpp"
#include "common/io/process_label.hpp"
#include "common/io/service_manager.hpp"
#include "common/log.hpp"
#include "common/number.hpp"
#include "common/program_end.hpp"
#include "common/secret_name.hpp"
#include "common/spec/job/features.hpp"
#include "common/spec/job/node_sizes.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/agent/agent.hpp"
#include "worker/agent/host/cgroups.hpp"
#include "worker/agent/host/cpus.hpp"
#include "worker/agent/host/host.hpp"
#include "worker/agent/host/nvml.hpp"
#include "worker/agent/host/pilot.hpp"
#include "worker/agent/host/self_check.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/container.hpp"
#include "worker/agent/process/guard.hpp"
#include "worker/agent/process/limits.hpp"
#include "worker/agent/process/reaper.hpp"
#include "worker/agent/process/wall.hpp"
#include "worker/agent/steps/batch.hpp"
#include "worker/agent/steps/srun.hpp"

namespace roll::agent {
namespace {

struct Flags {
    std::string dir;
    std::string node;
    std::string bin_dir;
    int slots = 0;
    int gpus = -1;
    double stop_grace = 30;
    double checkpoint_grace = 300;
    double orphan_after = 0;
    double lease = 15;
    double fence = 15;
    std::string pilot;
    std::int64_t ends_at = 0;
    int handover = 0;
    double unwanted = 600;
    std::vector<std::string> check;
    int check_timeout = 60;
    bool allow_faults = false;
    NodeNeeds needs;
    int gpu_wait = 50;
    std::string segment;
    std::string address;
    std::string wall;
    std::string memory;
    int cpus = 0;
    std::uint64_t reaper = 0;
};

Millis seconds(double value) { return Millis(static_cast<std::int64_t>(value * 1000)); }

// Returns `text` if it is a number, else "0". If squeue of Slurm 22.05 does not know when a job
// ends, it prints "N/A" or "Unknown".
std::string known_end(std::string text) {
    const bool number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    return number ? text : "0";
}

// Adds the options for the resources that this worker offers to jobs.
void add_offer_flags(CLI::App& app, Flags& flags) {
    app.add_option("--slots", flags.slots, "CPU slots to offer (default: number of cores)")
        ->check(CLI::Range(1, 4096));
    app.add_option("--gpus", flags.gpus, "GPUs to offer (default: all that NVML shows)")
        ->check(CLI::Range(0, 64));
    app.add_option("--memory", flags.memory,
                   "Memory to offer to jobs with resources.memory, e.g. 60GiB (default: this "
                   "machine's memory, or the part of it that Slurm or a cgroup allows)")
        ->check([](const std::string& text) {
            const auto size = spec::parse_size(text);
            return size ? std::string() : size.error().message;
        });
    app.add_option("--cpus", flags.cpus,
                   "CPUs to offer to jobs with resources.cpus (default: number of cores; in a "
                   "pilot: --slots)")
        ->check(CLI::Range(1, 4096));
}

void add_flags(CLI::App& app, Flags& flags) {
    app.add_option("--dir", flags.dir,
                   "State directory of rolld (default: ROLL_DIR, else ~/.local/state/roll)");
    app.add_option("--node", flags.node, "Name of this node (default: host name)");
    add_offer_flags(app, flags);
    app.add_option("--bin-dir", flags.bin_dir,
                   "Directory of roll-rank and roll-convert (default: this program's directory)");
    app.add_option("--stop-grace", flags.stop_grace,
                   "Seconds between a request to stop and SIGKILL");
    app.add_option("--checkpoint-grace", flags.checkpoint_grace,
                   "Seconds between a request to stop with a checkpoint and SIGKILL");
    app.add_option(
        "--orphan-after", flags.orphan_after,
        "Seconds without an answer from rolld after which attempts stop (default 0: never)");
    app.add_option("--lease", flags.lease,
                   "Seconds of silence from rolld after which attempts stop; rolld must have the "
                   "same --lease");
    app.add_option(
        "--fence", flags.fence,
        "Seconds after --lease until attempts are killed; rolld must have the same --fence");
    app.add_option(
        "--pilot", flags.pilot,
        "Key of the allocation request; rolld sets it when it starts this roll-worker in "
        "a Slurm allocation (as a pilot)");
    app.add_option("--ends-at", flags.ends_at,
                   "End of this pilot's Slurm allocation in Unix seconds")
        ->transform(known_end);
    app.add_option("--handover", flags.handover,
                   "Jobs save a checkpoint and stop this many seconds before --ends-at");
    app.add_option("--check", flags.check,
                   "Command that must end with exit status 0 before each attempt starts here; "
                   "`builtin` checks GPUs, network links and /tmp")
        ->delimiter(' ');
    app.add_flag("--allow-faults", flags.allow_faults,
                 "Allow jobs to inject faults into themselves (train.faults)");
    app.add_option("--check-timeout", flags.check_timeout, "Time limit of --check in seconds");
    app.add_option("--check-node", flags.needs.directory,
                   "Check this node and a directory, print the first fault, and exit");
    app.add_option("--check-gpu", flags.needs.names,
                   "With --check-node: a GPU that must have no memory fault; repeatable")
        ->allow_extra_args(false);
    app.add_option("--check-link", flags.needs.links,
                   "With --check-node: a network link that must be up; repeatable")
        ->allow_extra_args(false);
    app.add_option(
           "--gpu-wait", flags.gpu_wait,
           "Seconds that an attempt waits for its GPUs' memory to become free (0: do not wait)")
        ->check(CLI::Range(0, 3600));
    app.add_option("--segment", flags.segment,
                   "Network segment of this node, e.g. spine1.leaf4 (default: Slurm's "
                   "switches and the NVLink domain)");
    app.add_option("--address", flags.address,
                   "Address at which other nodes reach this node, for MASTER_ADDR of a gang "
                   "(default: the address from which this node reaches rolld)");
    app.add_option("--unwanted", flags.unwanted,
                   "Seconds without an answer from rolld after which an idle pilot ends");
    app.add_option("--wall", flags.wall,
                   "How roll-worker finds an attempt's processes after the attempt's guard (its "
                   "supervising process) was killed: cgroup, namespace or marks (environment "
                   "variables); default: the first of these that the host allows")
        ->check(CLI::IsMember({"cgroup", "namespace", "marks"}));
    // Makes this process a reaper. The option's value is the generation number in the reaper's
    // heartbeats. The number tells rolld that they are newer than the heartbeats of earlier
    // roll-workers.
    app.add_option("--reaper", flags.reaper, "")->group("");
}

// Returns CUDA's names of the GPUs that this worker offers.
std::vector<std::string> gpu_names(int count) {
    auto names = given_gpus(io::current_environment()).value_or(std::vector<std::string>{});
    for (int i = static_cast<int>(names.size()); i < count; ++i) names.push_back(std::to_string(i));
    return names;
}

protocol::Heartbeat identify(const Flags& flags) {
    protocol::Heartbeat self;
    self.session = draw_session();
    self.node = flags.node.empty() ? host_name() : flags.node;
    if (!flags.pilot.empty() && flags.node.empty())
        self.node = pilot_node(io::current_environment(), host_name(), flags.pilot);
    return self;
}

// Returns the memory that this worker offers: at most 1 PiB, the protocol's limit.
std::int64_t memory_of(const Flags& flags) {
    constexpr std::int64_t kMebibyte = 1 << 20;
    std::int64_t memory = usable_memory();
    const auto granted = parse_number<std::int64_t>(
        value_of(io::current_environment(), "SLURM_MEM_PER_NODE"));  // size in MiB
    if (granted && *granted > 0 && *granted < memory / kMebibyte) memory = *granted * kMebibyte;
    if (!flags.memory.empty())
        memory = static_cast<std::int64_t>(spec::parse_size(flags.memory).value());
    return std::min(memory, spec::kMemoryMax);
}

protocol::Heartbeat describe(const Flags& flags) {
    protocol::Heartbeat self = identify(flags);
    if (!flags.pilot.empty())
        self.pilot = protocol::PilotNote{
            flags.pilot, value_of(io::current_environment(), "SLURM_JOB_ID"), flags.ends_at};
    self.slots = flags.slots > 0 ? flags.slots : cores();
    self.gpus = flags.gpus >= 0 ? flags.gpus : count_gpus();
    self.memory = memory_of(flags);
    self.cpus = flags.cpus > 0 ? flags.cpus : self.pilot ? self.slots : cores();
    // A pilot offers at most the GPUs that Slurm granted, regardless of --gpus.
    const auto given = given_gpus(io::current_environment());
    if (given && (!flags.pilot.empty() || flags.gpus < 0))
        self.gpus = std::min(self.gpus, static_cast<int>(given->size()));
    self.features = spec::features();
    if (find_runtimes(value_of(io::current_environment(), "PATH")).empty())
        std::erase(self.features, std::string(spec::kContainer));
    self.segment = flags.segment;
    if (self.segment.empty())
        self.segment = segment_of(io::current_environment(),
                                  self.gpus > 0 ? nvlink_domain(gpu_names(self.gpus).front()) : "");
    if (self.gpus > 1)
        self.gpu_numa = numa_of_gpus(machine_cpus(allowed_cpus(), "/sys"),
                                     cpus_near_gpus(gpu_names(self.gpus)));
    return self;
}

// Removes the variables that look like secrets from `environment`, and returns their names. The
// secrets belong to the user that runs this worker, but the jobs may belong to other users.
std::vector<std::string> remove_secrets(std::vector<std::string>& environment) {
    std::vector<std::string> names;
    std::erase_if(environment, [&](const std::string& variable) {
        const std::string name = variable.substr(0, variable.find('='));
        if (!looks_secret(name)) return false;
        names.push_back(name);
        return true;
    });
    std::ranges::sort(names);
    return names;
}

LaunchSite site_of(const Flags& flags, const protocol::Heartbeat& self) {
    LaunchSite site;
    site.programs = flags.bin_dir.empty()
                        ? std::filesystem::path(io::own_program()).parent_path().string()
                        : std::filesystem::absolute(flags.bin_dir).string();
    site.slots = self.slots;
    site.gpus = self.gpus;
    site.session = self.session;
    site.node = self.node;
    site.environment = io::current_environment();
    site.gpu_names = given_gpus(site.environment).value_or(std::vector<std::string>{});
    const std::vector<std::string> gpus = gpu_names(self.gpus);
    if (count_gpus() > 0) site.gpu_used_bytes = used_gpu_memory(gpus);
    const Grant grant = granted_cpus(cores(), site.environment);
    site.cores = grant.count;
    // A worker outside of Slurm pins programs only with ROLL_CPU_BINDING=slots, because other
    // programs may use its CPUs.
    const bool told = value_of(site.environment, "ROLL_CPU_BINDING") == "slots";
    if (grant.own && (self.pilot || told))
        site.slot_cpus =
            share_cpus(machine_cpus(allowed_cpus(), "/sys"), self.slots, cpus_near_gpus(gpus));
    site.check = flags.check;
    site.check_seconds = flags.check_timeout;
    site.allow_faults = flags.allow_faults;
    site.links = links_up("/sys");
    site.container_runtimes = find_runtimes(value_of(site.environment, "PATH"));
    site.is_root = ::geteuid() == 0;
    site.gpu_wait_seconds = flags.gpu_wait;
    return site;
}

AgentCore make_core(const Flags& flags, const protocol::Heartbeat& self) {
    LeaseRules rules;
    rules.lease = seconds(flags.lease);
    rules.fence = seconds(flags.fence);
    rules.orphan_after = seconds(flags.orphan_after);
    StopRules stops;
    stops.grace = seconds(flags.stop_grace);
    stops.checkpoint_grace = seconds(flags.checkpoint_grace);
    return AgentCore(self, rules, stops);
}

// Returns the base name of this worker's pid file and log. Pilots (workers in Slurm allocations)
// and a second worker on this machine share the state directory with the first worker. The names of
// their files therefore include the node's name.
std::string file_name(const io::StateDirectory& directory, const protocol::Heartbeat& self) {
    const auto other = io::running(directory.pid("worker"), "roll-worker");
    const bool taken = other && *other != ::getpid();
    return self.pilot || taken ? "worker-" + self.node : "worker";
}

// Queues SIGCHLD and the signals that ask roll-worker to end. SIGUSR1 and SIGUSR2 are among these
// signals, because Slurm may announce the allocation's end with either (sbatch --signal).
io::Descriptor queue_end_signals() {
    return io::queue_signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD});
}

Result<Wall> build_wall(const Flags& flags, const std::string& session, const Log& log) {
    ROLL_TRY(Wall wall, Wall::choose(flags.wall, session));
    for (const std::string& why : wall.refused()) log.info("not available: {}", why);
    log.info("attempts are isolated with --wall {}", name_of(wall.kind()));
    return wall;
}

// Returns the command line of the reaper: this program's own command line with --reaper
// added.
std::vector<std::string> reaper_arguments(std::vector<std::string> words,
                                          std::uint64_t generation) {
    words[0] = io::own_program();
    words.insert(words.begin() + 1, "--reaper=" + std::to_string(generation));
    return words;
}

Result<void> work(const Flags& flags, const std::vector<std::string>& words) {
    io::ServiceManager manager = io::ServiceManager::from_environment();
    io::Descriptor signals = queue_end_signals();
    io::become_subreaper();
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(flags.dir));
    ROLL_TRY_VOID(directory.make());
    protocol::Heartbeat self = describe(flags);
    ROLL_TRY(RunDirectory run_directory,
             RunDirectory::open(directory.worker() / self.node, self.session));
    ROLL_TRY(self.generation, run_directory.next_generation());
    ROLL_TRY(const std::string identity, run_directory.identity());
    self.home = identity + "@" + host_name();
    self.process = io::process_label(::getpid());
    const std::string program = file_name(directory, self);
    ROLL_TRY_VOID(write_file_atomically(directory.pid(program), std::to_string(::getpid()) + "\n"));
    ROLL_TRY(const Log log, Log::open(directory.log(program), "roll-worker@" + self.node));
    LaunchSite site = site_of(flags, self);
    if (const auto names = remove_secrets(site.environment); !names.empty())
        log.warn(
            "jobs do not get {} from this worker's environment, because the names look like "
            "secrets; use `rollctl secret set NAME` and `submit --secret NAME`",
            fmt::format("{}", fmt::join(names, ", ")));
    site.files = (directory.worker() / self.node / "files").string();
    site.address = flags.address.empty() ? address_towards(directory.read_endpoint().value_or(""))
                                         : flags.address;
    log.info("roll-worker {} starts; slots: {}, GPUs: {}, CPUs: {}; {}", ROLL_VERSION, self.slots,
             self.gpus, site.cores,
             site.slot_cpus.empty() ? "the slots share the CPUs" : "each slot has its own CPUs");
    const auto tell = [&](const std::string& text) { log.warn("waits: {}", text); };
    auto leftovers = run_directory.end_leftovers(tell);
    run_left_over(run_directory.left_over());
    ROLL_TRY(Wall wall, build_wall(flags, self.session, log));
    Limiter limiter = Limiter::choose(wall.directory(), self.session);
    log.info("limits of memory and CPUs: {}", limiter.text());
    ROLL_TRY_VOID(run_directory.set_wall(wall, limiter.directories()));
    self.wall = name_of(wall.kind());
    self.limits = limiter.text();
    AgentCore core = make_core(flags, self);
    for (auto& entry : leftovers) core.add_leftover(std::move(entry));
    const io::ZmqContext context;
    Agent agent(
        {.core = std::move(core),
         .link = Link(context, directory),
         .supervisor =
             Supervisor({io::own_program(), "--guard"}, site, run_directory, std::move(wall),
                        std::move(limiter), Reaper(reaper_arguments(words, self.generation + 1))),
         .run_directory = run_directory,
         .files = JobFiles(site.files),
         .signals = std::move(signals),
         .log = log,
         .pilot = {self.pilot, std::chrono::seconds(flags.handover), seconds(flags.unwanted)},
         .gpus = GpuWatch(gpu_meter(gpu_names(self.gpus))),
         .manager = std::move(manager)});
    const Result<void> ended = agent.run();
    log.info("roll-worker ends{}", ended ? "" : ": " + ended.error().message);
    std::error_code error;
    std::filesystem::remove(directory.pid(program), error);
    if (self.pilot) run_directory.remove();
    const int status = ended ? 0 : end_with("roll-worker", ended.error());
    // exit without joining threads, because a thread that reads the beacon may hang with its volume
    ::_exit(status);
}

// Reports the attempts that a killed roll-worker left behind. Only the reaper calls this function.
// A later roll-worker could report them too, but perhaps none is ever started on this node.
[[noreturn]] void tell_last_word(const Flags& flags, RunDirectory& run_directory,
                                 const io::StateDirectory& directory, const Log& log,
                                 std::vector<protocol::RunningAttempt> leftovers) {
    io::Descriptor signals = queue_end_signals();
    protocol::Heartbeat self = identify(flags);
    self.generation = flags.reaper;
    // `home` identifies the killed roll-worker. rolld refuses this report if another roll-worker
    // runs under the node's name.
    if (const auto identity = run_directory.identity()) self.home = *identity + "@" + host_name();
    AgentCore core = make_core(flags, self);
    for (auto& entry : leftovers) core.add_leftover(std::move(entry));
    const io::ZmqContext context;
    Agent agent({.core = std::move(core),
                 .link = Link(context, directory),
                 .supervisor = Supervisor({}, {}, run_directory),
                 .run_directory = run_directory,
                 .signals = std::move(signals),
                 .log = log,
                 .pilot = {std::nullopt, {}, {}},
                 .last_word = true});
    ::raise(SIGTERM);  // makes run() return as soon as rolld has answered
    static_cast<void>(agent.run());
    // exit without joining threads, because an undelivered message must not block the exit
    ::_exit(0);
}

Result<void> reap(const Flags& flags) {
    ::prctl(PR_SET_NAME, "roll-reaper");
    // Queue the signals that ask for an end. Such a signal must not kill this process, the reaper,
    // because the reaper must outlive roll-worker.
    const io::Descriptor signals = queue_end_signals();
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(flags.dir));
    const std::string node = identify(flags).node;
    const auto path = directory.worker() / node;
    ROLL_TRY(RunDirectory run_directory, RunDirectory::watch(path));
    const LastWords words = await_last_words(STDIN_FILENO);
    auto leftovers = run_directory.end_leftovers();
    run_left_over(run_directory.left_over());
    if (words.dismissed || !std::filesystem::exists(path)) return {};
    const std::string program = flags.pilot.empty() ? "worker" : "worker-" + node;
    ROLL_TRY(const Log log, Log::open(directory.log(program), "roll-reaper@" + node));
    if (run_directory.nothing_left(words.clean)) {
        log.warn("roll-worker was killed; attempts whose processes have all ended: {}",
                 leftovers.size());
        tell_last_word(flags, run_directory, directory, log, std::move(leftovers));
    }
    log.warn(
        "roll-worker and the processes that supervise its jobs (guards) were killed; without a "
        "cgroup or namespace, processes of these jobs may still be running");
    return {};
}

int run(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--guard") == 0) return run_guard();
    const std::string_view first = argc > 1 ? argv[1] : "";
    // Programs that batch scripts call (steps/)
    if (first == "batch") return run_batch(argc - 1, argv + 1);
    if (first == "steps") return run_steps(argc - 1, argv + 1);
    if (first == "srun") return run_srun(argc - 1, argv + 1);
    if (first == "scontrol") return run_scontrol(argc - 1, argv + 1);
    CLI::App app("Runs the jobs that rolld gives to this node.");
    app.formatter(std::make_shared<HelpFormat>());
    Flags flags;
    add_flags(app, flags);
    app.set_version_flag("--version", "roll-worker " ROLL_VERSION, "Print the version");
    CLI11_PARSE(app, argc, argv);
    flags.needs.gpus = std::max(flags.gpus, 0);
    const std::vector<std::string> words(argv, argv + argc);
    const auto worked = flags.reaper > 0                ? reap(flags)
                        : flags.needs.directory.empty() ? work(flags, words)
                                                        : check_node(flags.needs);
    return worked ? 0 : end_with("roll-worker", worked.error());
}

}  // namespace
}  // namespace roll::agent

int main(int argc, char** argv) {
    return roll::with_last_resort("roll-worker", [&] { return roll::agent::run(argc, argv); });
}
