// `rollctl doctor --slurm`: what a node of the cluster sees of us, looked at from there by srun.
#include <fmt/format.h>

#include "cli/commands/doctor.hpp"
#include "cli/daemon.hpp"
#include "cli/render.hpp"
#include "common/io/state_directory.hpp"
#include "daemon/slurm/run.hpp"

namespace roll::cli {
namespace {

constexpr int kForANode = 20;  // seconds that srun waits for one
constexpr auto kPatience = std::chrono::seconds(60);

// Of roll-worker, the pilots' directory, rolld's host and port: a line each, what and a tab and
// what was seen.
constexpr const char* kScript = R"sh(
tell() { printf '%s\t%s\n' "$1" "${2%%$'\n'*}"; }
tell node "${SLURMD_NODENAME:-$HOSTNAME}"
if [ ! -e "$1" ]; then tell missing "$1"
elif said=$("$1" --version 2>&1); then tell version "$said"
else tell broken "$said"; fi
tell endpoint "$(cat "$2/endpoint" 2>&1)"
said=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$3" "$4" 2>&1)
status=$? said=${said%%$'\n'*}
case $status in
    0) tell tcp yes ;;
    124) tell tcp 'no answer within 5 s' ;;
    *) tell tcp "${said##*: }" ;;
esac
)sh";

using Told = std::map<std::string, std::string>;

Told parse(const std::string& output) {
    Told told;
    for (std::size_t from = 0; from < output.size();) {
        const std::size_t end = std::min(output.find('\n', from), output.size());
        const std::string line = output.substr(from, end - from);
        const std::size_t tab = line.find('\t');
        if (tab != line.npos) told[line.substr(0, tab)] = line.substr(tab + 1);
        from = end + 1;
    }
    return told;
}

// "tcp://host:port", brackets of an IPv6 address left out.
std::pair<std::string, std::string> host_and_port(std::string endpoint) {
    constexpr std::string_view kTcp = "tcp://";
    if (!endpoint.starts_with(kTcp)) return {};
    endpoint.erase(0, kTcp.size());
    const std::size_t colon = std::min(endpoint.rfind(':'), endpoint.size());
    std::string host = endpoint.substr(0, colon);
    std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
    return {host, endpoint.substr(std::min(colon + 1, endpoint.size()))};
}

// Of the partition and so on of the first queue: there pilots will be.
slurm::Command probe(const slurm::Site& site, const Json& queue, const std::string& endpoint) {
    std::vector<std::string> words = {"srun",         fmt::format("--immediate={}", kForANode),
                                      "--nodes=1",    "--ntasks=1",
                                      "--time=1",     "--job-name=roll-doctor",
                                      "--mpi=none",   "--chdir=/",
                                      "--input=none", "--export=ALL"};
    for (const char* key : {"partition", "account", "qos", "constraint"}) {
        const std::string value = field_text(queue, key);
        if (!value.empty()) words.push_back(fmt::format("--{}={}", key, value));
    }
    const auto [host, port] = host_and_port(endpoint);
    for (const std::string& word :
         {std::string("bash"), std::string("-c"), std::string(kScript), std::string("roll-doctor"),
          site.worker, site.directory, host, port})
        words.push_back(word);
    return {words, slurm::scrub(site.environment), {}};
}

Finding judge_worker(Told& told, const slurm::Site& site) {
    const char* const what = "node: roll-worker";
    if (told.contains("missing"))
        return {what, false, fmt::format("{} is not there", site.worker),
                "install Roll on a volume that the nodes mount"};
    if (told.contains("broken"))
        return {what, false, fmt::format("{} does not run: {}", site.worker, told["broken"]),
                fmt::format("packaging/setup on the nodes, until {} --version runs there",
                            site.worker)};
    if (told["version"] != ROLL_VERSION)
        return {what, false,
                fmt::format("is version {}, rollctl is {}", told["version"], ROLL_VERSION),
                "install the same version on the nodes"};
    return {what, true, "runs", ""};
}

Finding judge_directory(Told& told, const slurm::Site& site, const std::string& endpoint) {
    const bool same = told["endpoint"] == endpoint;
    return {"node: directory", same,
            same ? site.directory + " is the same there"
                 : fmt::format("{} is not this one there: its endpoint is {}", site.directory,
                               told["endpoint"]),
            same ? "" : "rollctl down; rollctl up --shared DIR, on a volume that the nodes mount"};
}

Finding judge_connection(Told& told, const std::string& endpoint) {
    const bool good = told["tcp"] == "yes";
    return {"node: to rolld", good,
            fmt::format("{} {}{}", endpoint,
                        good ? "can be reached" : "cannot be reached: ", good ? "" : told["tcp"]),
            good ? ""
                 : "open this port to the nodes, or name an address that they reach: rollctl down; "
                   "rollctl up --endpoint tcp://ADDRESS:PORT"};
}

// Slurm may have work for every node, which is no fault.
bool none_is_free(const slurm::Finished& done) {
    return done.timed_out || done.errors.find("busy") != std::string::npos ||
           done.errors.find("mmediate") != std::string::npos;
}

}  // namespace

std::vector<Finding> node_findings(const Context& context, const slurm::Site& site) {
    auto daemon = Daemon::connect(context);
    const Json reply = daemon ? daemon->ask("alloc_list").value_or(Json()) : Json();
    if (site.directory.empty() || !reply.is_object()) return {};  // said of rolld itself
    const Json queues = reply.value("queues", Json::array());
    const std::string endpoint =
        io::StateDirectory::find(site.directory)
            .and_then([](const io::StateDirectory& state) { return state.read_endpoint(); })
            .value_or("");
    if (host_and_port(endpoint).second.empty()) return {};  // said of the endpoint itself
    if (!context.json)
        say(fmt::format("asks Slurm for a node to look from, for at most {} s", kForANode));
    const Json queue = queues.empty() ? Json::object() : queues.front();
    const slurm::Finished done = slurm::run(probe(site, queue, endpoint), kPatience);
    Told told = parse(done.output);
    if (told.empty() && none_is_free(done))
        return {{"a node", true,
                 fmt::format("skipped: Slurm had no free node within {} s; what nodes see of us is "
                             "not known",
                             kForANode),
                 ""}};
    if (!told.contains("tcp"))
        return {{"a node", false,
                 fmt::format("srun did not run there: {}",
                             done.errors.substr(0, done.errors.find('\n'))),
                 "srun --nodes=1 hostname, with the partition and account of the queue"}};
    return {{"a node", true, told["node"] + " was looked from", ""},
            judge_worker(told, site),
            judge_directory(told, site, endpoint),
            judge_connection(told, endpoint)};
}

}  // namespace roll::cli
