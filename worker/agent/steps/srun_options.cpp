#include "worker/agent/steps/srun_options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "common/spec/schema/pyxis.hpp"

namespace roll::agent {
namespace {

// Syntax of an option. Flag: the option has no value. Value: the option must have a value. Either:
// the value may be omitted; if it is given, an = or nothing separates it from the option.
enum class Form { Flag, Value, Either };
enum class Use { Read, Ignored, Refused };
struct Option {
    char letter;
    const char* name;
    Form form;
    Use use = Use::Read;
    const char* why = "";
};

constexpr const char* kGpus =
    "the tasks of a step see all GPUs that the job has on their node; set CUDA_VISIBLE_DEVICES in "
    "the script";
constexpr const char* kPyxisSave =
    "Roll writes no images; --container-name keeps a container for later steps of the job, and "
    "`podman build` and `enroot export` make an image in the script";
constexpr const char* kPyxisFixed =
    "the containers of srun are writable, run as the user of the job, and without the image's "
    "entry point; leave out this option, and start an entry point in the command";
// Largest number of an option, and largest number of tasks of a step
constexpr int kTasksMax = 4096;
constexpr int kHostsMax = 100'000;  // largest number of hosts of a range such as n[1-9]

constexpr const char* kMpi = "Roll has no PMI server; use mpirun --hostfile $ROLL_HOSTFILE";

constexpr Option kOptions[] = {
    {'n', "ntasks", Form::Value},
    {'N', "nodes", Form::Value},
    {0, "ntasks-per-node", Form::Value},
    {'r', "relative", Form::Value},
    {'w', "nodelist", Form::Value},
    {'x', "exclude", Form::Value},
    {'m', "distribution", Form::Value},
    {'l', "label", Form::Flag},
    {'K', "kill-on-bad-exit", Form::Either},
    {'o', "output", Form::Value},
    {'e', "error", Form::Value},
    {'D', "chdir", Form::Value},
    {0, "export", Form::Value},
    {0, "mpi", Form::Value},
    {'c', "cpus-per-task", Form::Value, Use::Ignored},
    {'u', "unbuffered", Form::Flag, Use::Ignored},
    {'Q', "quiet", Form::Flag, Use::Ignored},
    {'v', "verbose", Form::Flag, Use::Ignored},
    {'J', "job-name", Form::Value, Use::Ignored},
    {'O', "overcommit", Form::Flag, Use::Ignored},
    {'s', "oversubscribe", Form::Flag, Use::Ignored},
    {'t', "time", Form::Value, Use::Ignored},
    {'W', "wait", Form::Value, Use::Ignored},
    {'k', "no-kill", Form::Flag, Use::Ignored},
    {'p', "partition", Form::Value, Use::Ignored},
    {'A', "account", Form::Value, Use::Ignored},
    {0, "exclusive", Form::Either, Use::Ignored},
    {0, "exact", Form::Flag, Use::Ignored},
    {0, "overlap", Form::Flag, Use::Ignored},
    {0, "mem", Form::Value, Use::Ignored},
    {0, "mem-per-cpu", Form::Value, Use::Ignored},
    {0, "mem-bind", Form::Value, Use::Ignored},
    {0, "cpu-bind", Form::Value, Use::Ignored},
    {0, "gpu-bind", Form::Value, Use::Ignored},
    {0, "accel-bind", Form::Value, Use::Ignored},
    {0, "hint", Form::Value, Use::Ignored},
    {0, "threads-per-core", Form::Value, Use::Ignored},
    {0, "propagate", Form::Either, Use::Ignored},
    {'G', "gpus", Form::Value, Use::Refused, kGpus},
    {0, "gpus-per-node", Form::Value, Use::Refused, kGpus},
    {0, "gpus-per-task", Form::Value, Use::Refused, kGpus},
    {0, "gres", Form::Value, Use::Refused, kGpus},
    {0, "pty", Form::Flag, Use::Refused,
     "a batch script has no terminal; open one with rollctl shell JOB"},
    {0, "multi-prog", Form::Flag, Use::Refused, "start one srun for each program, with & and wait"},
    {0, "jobid", Form::Value, Use::Refused,
     "srun starts tasks only in the job of its script; remove --jobid"},
    {0, "het-group", Form::Value, Use::Refused,
     "Roll has no heterogeneous jobs; start one srun for each program"},
    {0, "container", Form::Value, Use::Refused,
     "use --container-image, or start the container in the command"},
    {0, "container-image", Form::Value},
    {0, "container-mounts", Form::Value},
    {0, "container-workdir", Form::Value},
    {0, "container-mount-home", Form::Flag},
    {0, "no-container-mount-home", Form::Flag, Use::Ignored},
    {0, "no-container-remap-root", Form::Flag, Use::Ignored},
    {0, "no-container-entrypoint", Form::Flag, Use::Ignored},
    {0, "container-env", Form::Value, Use::Ignored},
    {0, "container-writable", Form::Flag, Use::Ignored},
    {0, "container-name", Form::Value},
    {0, "container-save", Form::Value, Use::Refused, kPyxisSave},
    {0, "container-readonly", Form::Flag, Use::Refused, kPyxisFixed},
    {0, "container-remap-root", Form::Flag, Use::Refused, kPyxisFixed},
    {0, "container-entrypoint", Form::Flag, Use::Refused, kPyxisFixed},
};

tl::unexpected<Error> wrong(const std::string& what) {
    return fail(ErrorCode::InvalidArgument, "srun: " + what);
}

const Option* find_long(const std::string& name) {
    const auto found = std::ranges::find(kOptions, name, &Option::name);
    return found == std::end(kOptions) ? nullptr : found;
}

const Option* find_letter(char letter) {
    const auto found = std::ranges::find(kOptions, letter, &Option::letter);
    return letter == 0 || found == std::end(kOptions) ? nullptr : found;
}

std::optional<int> positive(const std::string& text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > kTasksMax)
        return std::nullopt;
    return number;
}

using Given = std::map<std::string, std::string>;

// Records an option. Fails if roll-worker's srun does not support the option or its value.
Result<void> add(const Option& option, std::string value, Given& given) {
    const std::string name = option.name;
    const bool no_mpi = name == "mpi" && value != "none";
    const bool gpus_off = option.why == kGpus && value == "0";
    if (no_mpi) return wrong("--mpi=" + value + ": " + kMpi);
    if (option.use == Use::Refused && !gpus_off) return wrong("--" + name + ": " + option.why);
    given[name] = std::move(value);
    return {};
}

// Splits the arguments. Stores the options in `given`. Returns the program with its arguments.
Result<std::vector<std::string>> split(const std::vector<std::string>& arguments, Given& given) {
    std::size_t at = 0;
    for (; at < arguments.size() && arguments[at].size() > 1 && arguments[at][0] == '-'; ++at) {
        const std::string& word = arguments[at];
        if (word == "--") {
            ++at;
            break;
        }
        const bool is_long = word[1] == '-';
        const std::size_t equals = is_long ? word.find('=') : std::string::npos;
        const Option* const option =
            is_long ? find_long(word.substr(2, equals - 2)) : find_letter(word[1]);
        if (option == nullptr) return wrong("Roll's srun has no option " + word);
        std::string value = equals != std::string::npos ? word.substr(equals + 1) : "";
        if (!is_long && option->form != Form::Flag) value = word.substr(2);
        if (!is_long && option->form == Form::Flag && word.size() > 2)
            return wrong(word + ": write each option as a separate word");
        if (option->form == Form::Value && value.empty() && equals == std::string::npos) {
            if (++at == arguments.size()) return wrong(word + " needs a value");
            value = arguments[at];
        }
        ROLL_TRY_VOID(add(*option, std::move(value), given));
    }
    return std::vector<std::string>(arguments.begin() + static_cast<std::ptrdiff_t>(at),
                                    arguments.end());
}

Result<void> read_number(const Given& given, const char* name, int& number) {
    const auto found = given.find(name);
    if (found == given.end()) return {};
    const auto value = positive(found->second.substr(0, found->second.find('-')));
    const bool zero = name == std::string("relative") && found->second == "0";
    if (!value && !zero)
        return wrong("--" + found->first + " is \"" + found->second +
                     "\"; allowed: a whole number from 1 to " + std::to_string(kTasksMax));
    number = value.value_or(0);
    return {};
}

// Appends the names of "n[1-3,07]" or of a plain name. Returns false if the brackets are malformed.
bool add_hosts(const std::string& part, std::vector<std::string>& names) {
    const std::size_t open = part.find('[');
    if (open == std::string::npos) {
        names.push_back(part);
        return !part.empty();
    }
    const std::size_t close = part.find(']', open);
    if (close == std::string::npos) return false;
    std::string ranges = part.substr(open + 1, close - open - 1) + ",";
    for (std::size_t comma = 0; (comma = ranges.find(',')) != std::string::npos;) {
        const std::string range = ranges.substr(0, comma);
        ranges.erase(0, comma + 1);
        const std::string first = range.substr(0, range.find('-'));
        const std::string last = range.substr(range.find('-') + 1);
        if (first.empty() || (first + last).find_first_not_of("0123456789") != std::string::npos ||
            first.size() > 8 || last.size() > 8 ||
            std::atoi(last.c_str()) - std::atoi(first.c_str()) >= kHostsMax)
            return false;
        for (int i = std::atoi(first.c_str()); i <= std::atoi(last.c_str()); ++i) {
            std::string digits = std::to_string(i);
            digits.insert(0, first.size() - std::min(first.size(), digits.size()), '0');
            names.push_back(part.substr(0, open) + digits + part.substr(close + 1));
        }
    }
    return true;
}

// Returns the nodes of the job that the step may use, as node numbers.
Result<std::vector<int>> usable_nodes(const SrunOptions& options, const StepSite& site) {
    std::vector<int> usable;
    for (std::size_t i = static_cast<std::size_t>(options.relative); i < site.nodes.size(); ++i) {
        const auto in = [&](const std::vector<std::string>& list) {
            return std::ranges::find(list, site.nodes[i]) != list.end();
        };
        if ((options.only.empty() || in(options.only)) && !in(options.without))
            usable.push_back(static_cast<int>(i));
    }
    for (const std::string& name : options.only)
        if (std::ranges::find(site.nodes, name) == site.nodes.end())
            return wrong("the job has no node " + name);
    return usable;
}

// Reads --container-name. Pyxis can refuse a container that an earlier step made (NAME:create), or
// require one (NAME:exec, NAME:no_exec). Roll does what pyxis does by default (NAME:auto).
Result<std::string> read_container_name(const std::string& value) {
    const std::string name = value.ends_with(":auto") ? value.substr(0, value.size() - 5) : value;
    constexpr const char* kAllowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    if (name.empty() || name.size() > 64 || name.find_first_not_of(kAllowed) != std::string::npos)
        return wrong("--container-name is \"" + value +
                     "\"; allowed: 1 to 64 letters, digits, dots, hyphens and underscores");
    return name;
}

// Reads the options of pyxis. Like pyxis, ignores them without --container-image and
// --container-name.
Result<std::optional<Container>> read_pyxis(Given& given) {
    const bool named = given.contains("container-name");
    if (!given.contains("container-image") && !named) return std::nullopt;
    const auto told = [](const char* option, const std::string& value, const Error& error) {
        return wrong("--" + std::string(option) + " is \"" + value +
                     "\"; allowed: " + error.message);
    };
    Container container;
    if (given.contains("container-image")) {
        auto key = spec::pyxis_image(given["container-image"]);
        if (!key) return told("container-image", given["container-image"], key.error());
        ROLL_TRY(container, read_container(*key));
    }
    if (named) {
        ROLL_TRY(container.name, read_container_name(given["container-name"]));
    }
    if (given.contains("container-mounts")) {
        const auto binds = spec::pyxis_mounts(given["container-mounts"]);
        if (!binds) return told("container-mounts", given["container-mounts"], binds.error());
        container.binds = binds->get<std::vector<std::string>>();
    }
    const char* const home = std::getenv("HOME");
    if (given.contains("container-mount-home") && home != nullptr) container.binds.push_back(home);
    container.workdir = given["container-workdir"];
    return container;
}

}  // namespace

std::vector<std::string> expand_hosts(const std::string& list) {
    std::vector<std::string> names;
    std::string part;
    int depth = 0;
    for (const char c : list + ",") {
        if (c == '[') ++depth;
        if (c == ']') --depth;
        if (c != ',' || depth > 0) {
            part += c;
            continue;
        }
        if (!add_hosts(part, names)) return {};
        part.clear();
    }
    return names;
}

Result<SrunOptions> read_srun(const std::vector<std::string>& arguments) {
    Given given;
    SrunOptions options;
    ROLL_TRY(options.words, split(arguments, given));
    if (options.words.empty()) return wrong("no program is given; write it after the options");
    ROLL_TRY_VOID(read_number(given, "ntasks", options.tasks));
    ROLL_TRY_VOID(read_number(given, "nodes", options.nodes));
    ROLL_TRY_VOID(read_number(given, "ntasks-per-node", options.tasks_per_node));
    ROLL_TRY_VOID(read_number(given, "relative", options.relative));
    options.label = given.contains("label");
    const auto kill = given.find("kill-on-bad-exit");
    options.unequal_exit_kills = kill != given.end() && kill->second != "0";
    for (const auto& [name, list] :
         {std::pair("nodelist", &options.only), {"exclude", &options.without}}) {
        if (!given.contains(name)) continue;
        *list = expand_hosts(given[name]);
        if (list->empty())
            return wrong("--" + std::string(name) + " is \"" + given[name] +
                         "\"; allowed: names such as n1,n2 or n[1-2]");
    }
    const std::string how =
        given["distribution"].substr(0, given["distribution"].find_first_of(":,"));
    if (!how.empty() && how != "block" && how != "cyclic" && how != "*")
        return wrong("--distribution is \"" + how + "\"; allowed: block or cyclic");
    options.cyclic = how == "cyclic";
    options.output = given["output"];
    options.error = given["error"];
    options.directory = given["chdir"];
    if (given.contains("export")) options.export_names = given["export"];
    ROLL_TRY(options.container, read_pyxis(given));
    return options;
}

Result<Step> plan_step(const SrunOptions& options, const StepSite& site) {
    ROLL_TRY(std::vector<int> usable, usable_nodes(options, site));
    const int most = static_cast<int>(usable.size());
    const int per_node = options.tasks_per_node > 0               ? options.tasks_per_node
                         : options.tasks > 0 || options.nodes > 0 ? 0
                                                                  : site.tasks_per_node;
    int tasks = options.tasks;
    if (tasks == 0 && per_node == 0 && options.nodes == 0) tasks = site.tasks;
    int nodes = options.nodes > 0 ? options.nodes : most;
    if (options.nodes == 0 && tasks > 0 && per_node > 0)
        nodes = std::min(most, (tasks + per_node - 1) / per_node);
    if (tasks > 0) nodes = std::min(nodes, tasks);
    if (nodes > most || nodes == 0)
        return wrong("nodes that the step needs: " + std::to_string(std::max(nodes, 1)) +
                     "; nodes of the job that it can use: " + std::to_string(most));
    if (tasks == 0) tasks = per_node > 0 ? per_node * nodes : nodes;
    usable.resize(static_cast<std::size_t>(nodes));
    if (tasks > kTasksMax)
        return wrong("the step has " + std::to_string(tasks) + " tasks; allowed: at most " +
                     std::to_string(kTasksMax) + "; set a lower --ntasks");
    Step step;
    step.words = options.words;
    step.container = options.container;
    step.job_nodes = usable;
    for (const int node : usable) step.nodes.push_back(site.nodes[static_cast<std::size_t>(node)]);
    step.tasks = place_tasks(spread(tasks, nodes), options.cyclic);
    return step;
}

}  // namespace roll::agent
