#include "worker/agent/process/container.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

#include "common/io/process.hpp"
#include "common/split.hpp"

namespace roll::agent {
namespace {

using Words = std::vector<std::string>;

// the order in which `auto` chooses a runtime
constexpr const char* kApptainer = "apptainer";
constexpr std::array<const char*, 3> kRuntimes = {"podman", kApptainer, "enroot"};

// The characters of a variable's name. The names of exported shell functions contain other
// characters.
constexpr const char* kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

// A path of the node that is visible in the container
struct Bind {
    std::string source;
    std::string target;
    bool read_only = false;
};

std::string without_slash(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

Bind bind_of(const std::string& text) {
    std::istringstream parts(text);
    Bind bind;
    std::string mode;
    std::getline(parts, bind.source, ':');
    std::getline(parts, bind.target, ':');
    std::getline(parts, mode);
    bind.source = without_slash(bind.source);
    bind.target = bind.target.empty() ? bind.source : without_slash(bind.target);
    bind.read_only = mode == "ro";
    return bind;
}

// Returns all binds. A bind of the job file replaces the default bind at the same target.
std::vector<Bind> binds_of(const Container& container, const ContainerPlace& place) {
    // sorted by target, so that a directory precedes its content
    std::map<std::string, Bind> binds;
    for (const std::string& given : {place.output, place.directory, place.files}) {
        const std::string directory = without_slash(given);
        if (directory.empty()) continue;
        binds[directory] = {directory, directory};
    }
    for (const std::string& text : container.binds) {
        Bind bind = bind_of(text);
        binds[bind.target] = bind;
    }
    std::vector<Bind> result;
    for (auto& [target, bind] : binds) result.push_back(std::move(bind));
    return result;
}

const std::string& workdir_of(const Container& container, const ContainerPlace& place) {
    return container.workdir.empty() ? place.directory : container.workdir;
}

// Returns the names of the variables that a container gets. They include MASTER_ADDR and
// MASTER_PORT, which the guard sets later, when it knows the gang's meeting point (meeting.hpp).
std::set<std::string> names_of(const std::map<std::string, std::string>& environment) {
    std::set<std::string> names = {"MASTER_ADDR", "MASTER_PORT"};
    for (const auto& [name, value] : environment) names.insert(name);
    return names;
}

// Returns whether a variable of this name configures the container runtime itself, such as the
// place where it keeps its images. The runtime must get roll-worker's value of such a variable.
bool configures_runtime(const std::string& name) {
    constexpr std::array<std::string_view, 12> kNames = {"HOME",
                                                         "PATH",
                                                         "TMPDIR",
                                                         "REGISTRY_AUTH_FILE",
                                                         "LD_PRELOAD",
                                                         "LD_LIBRARY_PATH",
                                                         "DBUS_SESSION_BUS_ADDRESS",
                                                         "ENROOT_CACHE_PATH",
                                                         "ENROOT_CONFIG_PATH",
                                                         "ENROOT_DATA_PATH",
                                                         "ENROOT_RUNTIME_PATH",
                                                         "ENROOT_TEMP_PATH"};
    constexpr std::array<std::string_view, 3> kPrefixes = {"XDG_", "CONTAINERS_", "PODMAN_"};
    return std::ranges::find(kNames, name) != kNames.end() ||
           std::ranges::any_of(kPrefixes,
                               [&](std::string_view start) { return name.starts_with(start); });
}

// Returns an option for each variable that a container gets. The command line has only the names of
// variables, because values may be secrets; the runtime takes the values from its own environment.
// A variable that configures the runtime is given with its value instead, because the runtime's own
// environment has another value of it.
Words environment_options(const std::map<std::string, std::string>& environment) {
    Words words;
    for (const std::string& name : names_of(environment)) {
        const bool has_value = configures_runtime(name) && environment.contains(name);
        words.push_back("--env=" + name + (has_value ? "=" + environment.at(name) : ""));
    }
    return words;
}

// Removes from a program's environment the variables that configure the container runtime.
void keep_runtime_apart(std::vector<std::string>& variables) {
    std::erase_if(variables, [](const std::string& variable) {
        return configures_runtime(variable.substr(0, variable.find('=')));
    });
}

// Returns a command that removes containers by running `words`. The command runs `words` again if
// they fail, because Podman may refuse to remove a container. Podman must first notice that the
// container's processes were killed.
Words removal(const Words& words) {
    constexpr const char* kRepeat = "for i in 1 2 3 4 5 6; do \"$@\" && exit; sleep 1; done";
    Words result = {"/bin/sh", "-c", kRepeat, "roll"};
    result.insert(result.end(), words.begin(), words.end());
    return result;
}

// --cgroups=disabled keeps the container in the cgroups that limit the attempt. Podman then
// requires a PID namespace, whose process 1 ignores SIGTERM by default. With --init, the command is
// not process 1.
Words podman(const Container& container, const ContainerPlace& place,
             const std::map<std::string, std::string>& environment, bool is_root) {
    Words words = {"run",
                   "--rm",
                   "--name=" + place.name,
                   "--init",
                   "--interactive",
                   "--network=host",
                   "--ipc=host",
                   "--entrypoint=",
                   "--cgroups=disabled",
                   "--no-healthcheck",
                   "--log-driver=none",
                   "--security-opt=label=disable"};
    words.push_back(is_root ? "--user=0:0" : "--userns=keep-id");
    if (place.gpus) words.emplace_back("--device=nvidia.com/gpu=all");
    for (const Bind& bind : binds_of(container, place))
        words.push_back("--volume=" + bind.source + ":" + bind.target +
                        (bind.read_only ? ":ro" : ""));
    words.push_back("--workdir=" + workdir_of(container, place));
    std::ranges::move(environment_options(environment), std::back_inserter(words));
    if (place.shared.empty())
        words.push_back(container.image);
    else
        words.insert(words.end(), {"--env-file=/dev/fd/3", "--rootfs"});
    return words;
}

// Runs Podman on the files of the container $2, which is made of the image $3 if it does not exist
// yet. The path of these files is inserted after the first $4 of Podman's words. With --rootfs,
// Podman does not use the variables of an image, so it reads these variables from descriptor 3.
constexpr const char* kSharedPodman = R"(podman=$1 box=$2 image=$3 words=$4 lock=$5; shift 5
( flock 9
  "$podman" container exists "$box" && exit
  test -n "$image" || { echo "srun: no earlier step made this container on this node;" \
    "also give --container-image" >&2; exit 1; }
  "$podman" create --name="$box" "$image" true >/dev/null
) 9>>"$lock" || exit 125
root=$("$podman" mount "$box" 2>/dev/null || "$podman" unshare "$podman" mount "$box") || exit 125
for word do
  shift
  test "$words" != 0 || set -- "$@" "$root"
  set -- "$@" "$word"
  words=$((words - 1))
done
exec "$podman" "$@" 3<<END
$("$podman" container inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$box")
END
)";

// Runs Enroot on the files of a shared container, with the same arguments as kSharedPodman.
constexpr const char* kSharedEnroot = R"(enroot=$1 box=$2 image=$3 lock=$5; shift 5
( flock 9
  "$enroot" list | grep -q -x -F "$box" && exit
  test -n "$image" || { echo "srun: no earlier step made this container on this node;" \
    "also give --container-image" >&2; exit 1; }
  "$enroot" create --name "$box" "$image"
) 9>>"$lock" || exit 125
exec "$enroot" "$@"
)";

// Returns the words that run a command in a container that podman() has started.
Words podman_exec(const std::string& path, const Container& container, const ContainerPlace& place,
                  const std::map<std::string, std::string>& environment) {
    Words words = {path, "exec", "--interactive", kTerminalOption, "--env=TERM"};
    words.push_back("--workdir=" + workdir_of(container, place));
    std::ranges::move(environment_options(environment), std::back_inserter(words));
    words.push_back(place.name);
    return words;
}

// Apptainer passes on the whole environment except PATH and LD_LIBRARY_PATH.
Words apptainer(const Container& container, const ContainerPlace& place) {
    Words words = {"exec"};
    if (place.gpus) words.emplace_back("--nv");
    for (const Bind& bind : binds_of(container, place))
        words.push_back("--bind=" + bind.source + ":" + bind.target +
                        (bind.read_only ? ":ro" : ""));
    words.push_back("--pwd=" + workdir_of(container, place));
    const std::string& image = container.image;
    const bool has_scheme = image.find("://") != std::string::npos;
    const bool is_file = image.starts_with("/") || image.ends_with(".sif");
    words.push_back(has_scheme || is_file ? image : "docker://" + image);
    return words;
}

// Enroot has no option for the working directory, so a shell in the container changes to it.
Words enroot(const Container& container, const ContainerPlace& place,
             const std::map<std::string, std::string>& environment) {
    Words words = {"start", "--rw"};
    for (const Bind& bind : binds_of(container, place))
        words.push_back("--mount=" + bind.source + ":" + bind.target + ":none:x-create=auto,rbind" +
                        (bind.read_only ? ",ro" : ""));
    std::ranges::move(environment_options(environment), std::back_inserter(words));
    if (place.gpus) words.emplace_back("--env=NVIDIA_VISIBLE_DEVICES=all");
    words.insert(words.end(), {place.shared.empty() ? container.image : place.shared, "/bin/sh",
                               "-c", "cd \"$0\" && exec \"$@\"", workdir_of(container, place)});
    return words;
}

}  // namespace

Result<Container> read_container(const Json& json) {
    JsonReader r(json, "job.container");
    Container container;
    container.image = r.get<std::string>("image");
    container.runtime = r.get_or("runtime", std::string{"auto"});
    container.binds = r.get_or("binds", std::vector<std::string>{});
    container.workdir = r.get_or("workdir", std::string{});
    container.name = r.get_or("name", std::string{});
    ROLL_TRY_VOID(r.finish_lenient());
    return container;
}

Json json_of(const Container& container) {
    return {{"image", container.image},
            {"runtime", container.runtime},
            {"binds", container.binds},
            {"workdir", container.workdir},
            {"name", container.name}};
}

std::map<std::string, std::string> inherited(const std::vector<std::string>& environment) {
    std::map<std::string, std::string> variables;
    for (const std::string& variable : environment) {
        const std::size_t equals = variable.find('=');
        const std::string name = variable.substr(0, equals);
        const bool of_shell = name == "PWD" || name == "OLDPWD" || name == "_" ||
                              name.find_first_not_of(kNameCharacters) != std::string::npos;
        if (equals != std::string::npos && !of_shell && !configures_runtime(name))
            variables[name] = variable.substr(equals + 1);
    }
    return variables;
}

std::vector<std::string> runtime_variables(const std::vector<std::string>& environment) {
    std::vector<std::string> variables;
    for (const std::string& variable : environment)
        if (configures_runtime(variable.substr(0, variable.find('='))))
            variables.push_back(variable);
    return variables;
}

std::string removal_line(const Words& remove, const std::vector<std::string>& environment) {
    std::string line = "env -i";
    for (const std::string& variable : runtime_variables(environment))
        if (variable.find('\n') == std::string::npos) line += " " + shell_quoted(variable);
    for (const std::string& word : remove) line += " " + shell_quoted(word);
    return line + "\n";
}

Program removal_of_listed(const std::string& file, const LaunchSite& site) {
    constexpr const char* kRemove = "test ! -e \"$0\" || sort -u \"$0\" | sh -e";
    return {removal({"/bin/sh", "-c", kRemove, file}), runtime_variables(site.environment), "/",
            ""};
}

std::string runtime_of(const Container& container, const LaunchSite& site) {
    std::string wanted = container.runtime;
    if (wanted == "auto" && container.image.ends_with(".sif")) wanted = "apptainer";
    if (wanted == "auto" && container.image.ends_with(".sqsh")) wanted = "enroot";
    for (const char* name : kRuntimes)
        if ((wanted == "auto" || wanted == name) && site.container_runtimes.contains(name) &&
            (container.name.empty() || name != kApptainer))
            return name;
    return "";
}

std::map<std::string, std::string> find_runtimes(const std::string& path) {
    std::map<std::string, std::string> found;
    for (const std::string& directory : split_at(path, ':')) {
        for (const char* name : kRuntimes) {
            const std::filesystem::path file = std::filesystem::path(directory) / name;
            if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0)
                found.emplace(name, file.string());
        }
    }
    return found;
}

Result<void> enclose(const Container& container, const ContainerPlace& place,
                     const std::map<std::string, std::string>& environment, const LaunchSite& site,
                     GuardPlan& plan) {
    const std::string runtime = runtime_of(container, site);
    if (runtime.empty())
        return fail(
            ErrorCode::InvalidArgument,
            "node " + site.node + " cannot run the container " + container.image +
                ": the PATH of roll-worker (in a step of srun, the PATH of the script) has no " +
                (container.runtime == "auto"
                     ? "podman, apptainer or enroot that can run this container"
                     : container.runtime) +
                "; install it there and restart roll-worker, or submit to another "
                "node");
    const std::string& path = site.container_runtimes.at(runtime);
    Program& program = plan.programs.back();
    Words words = runtime == "podman"      ? podman(container, place, environment, site.is_root)
                  : runtime == "apptainer" ? apptainer(container, place)
                                           : enroot(container, place, environment);
    const std::string count = std::to_string(words.size());
    if (place.shared.empty())
        words.insert(words.begin(), path);
    else
        words.insert(words.begin(),
                     {"/bin/sh", "-c", runtime == "podman" ? kSharedPodman : kSharedEnroot, "roll",
                      path, place.shared, container.image, count, place.lock});
    program.enter = runtime == "podman" ? podman_exec(path, container, place, environment) : words;
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
    program.arguments = std::move(words);
    if (runtime != "apptainer") keep_runtime_apart(program.environment);
    if (runtime != "podman") return {};
    if (plan.after.empty())
        plan.after.push_back({removal({path, "rm", "--force", "--ignore", "--time=0"}),
                              runtime_variables(site.environment), "/", ""});
    // One `podman rm` removes the containers of all programs of the attempt.
    plan.after.back().arguments.push_back(place.name);
    return {};
}

void run_left_over(const std::vector<Program>& programs, Millis most) {
    std::vector<pid_t> running;
    for (const Program& program : programs) {
        io::Spawn spawn;
        spawn.arguments = program.arguments;
        spawn.environment = program.environment;
        spawn.directory = program.directory;
        if (const auto pid = io::spawn(spawn)) running.push_back(*pid);
    }
    const Instant until = boot_now() + most;
    for (const pid_t pid : running) {
        bool runs = true;
        while ((runs = ::waitpid(pid, nullptr, WNOHANG) == 0) && boot_now() < until)
            ::usleep(20000);
        // Does not wait again: a program that uses a hung volume may never end.
        if (runs) ::kill(pid, SIGKILL);
    }
}

}  // namespace roll::agent
