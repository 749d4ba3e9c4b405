#include "cli/slurm/rules.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/slurm/values.hpp"
#include "common/files.hpp"
#include "common/spec/schema/pyxis.hpp"

namespace roll::cli {
namespace {

constexpr int kLowestPriority = -1'000'000;
// Largest numbers of options, so small that no product of options overflows.
constexpr std::int64_t kMost = 1'000'000;
constexpr std::int64_t kMebibytesMost = 1'000'000'000'000;
constexpr const char* kTimeLimit = "M, M:S, H:M:S, D-H, D-H:M, D-H:M:S, or 0 for no limit";
constexpr const char* kInstant =
    "now+1hour, tomorrow, 16:00, 2026-11-26 or 2026-11-26T16:00:00, in local time";

// Returns a name that Roll accepts. Characters that are not allowed become dashes.
std::string roll_name(const std::string& name) {
    std::string result = name.substr(0, 64);
    for (char& c : result)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
    const bool starts_well = !result.empty() && std::isalnum(static_cast<unsigned char>(result[0]));
    return starts_well ? result : ("job" + result).substr(0, 64);
}

// Translates the options of one job.
class Translation {
  public:
    Translation(const std::vector<SbatchOption>& options, Json document, Time now) : now_(now) {
        reading_.document = std::move(document);
        for (const SbatchOption& option : options) {
            std::erase_if(order_, [&](const auto& other) { return other.name == option.name; });
            order_.push_back(option);
        }
        for (const SbatchOption& option : order_) by_name_[option.name] = &option;
    }

    SbatchReading run();

  private:
    const SbatchOption* find(const std::string& name) const {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : found->second;
    }
    Json& slurm() { return reading_.document["sbatch"]; }
    Json& resources() { return reading_.document["resources"]; }

    void refuse(const SbatchOption& option, const std::string& allowed) {
        reading_.problems.push_back(fmt::format("{}--{} is \"{}\"; allowed: {}", option.place,
                                                option.name, option.value, allowed));
    }
    std::optional<std::int64_t> count(const std::string& name, int least = 1);
    std::optional<std::int64_t> gpu_count(const std::string& name);
    void read_sizes();
    void read_gpus(std::int64_t nodes, std::int64_t tasks, std::optional<std::int64_t> all);
    std::optional<std::int64_t> gres_gpus();
    void read_texts();
    void read_name();
    void read_times();
    void read_queue();
    void read_requeue();
    void read_dependency();
    void read_export();
    void read_export_file();
    void copy_variable(const SbatchOption& option, const std::string& name);
    void set_variable(const SbatchOption& by, const std::string& name, const std::string& value);
    void read_signal();
    void read_memory();
    void read_switches(std::int64_t nodes);
    void read_container();
    void describe();

    std::vector<SbatchOption> order_;  // each option once, ordered by its last occurrence
    std::map<std::string, const SbatchOption*> by_name_;
    Time now_;
    SbatchReading reading_{};
};

// Returns the number in an option's value; nullopt if the option is missing or is refused.
std::optional<std::int64_t> Translation::count(const std::string& name, int least) {
    const SbatchOption* const option = find(name);
    if (option == nullptr) return std::nullopt;
    const auto number = slurm_count(option->value);
    if (number && *number >= least && *number <= kMost) return number;
    refuse(*option, fmt::format("a whole number from {} to {}", least, kMost));
    return std::nullopt;
}

// Returns the number N in an option's value "N" or "TYPE:N".
std::optional<std::int64_t> Translation::gpu_count(const std::string& name) {
    const SbatchOption* const option = find(name);
    if (option == nullptr) return std::nullopt;
    const std::size_t colon = option->value.rfind(':');
    const auto number =
        slurm_number(option->value.substr(colon == std::string::npos ? 0 : colon + 1));
    if (number && *number <= kMost) return number;
    refuse(*option, fmt::format("N or TYPE:N with N from 0 to {}", kMost));
    return std::nullopt;
}

// Returns the number of GPUs in --gres; nullopt if --gres names no GPUs. Refuses other resources.
std::optional<std::int64_t> Translation::gres_gpus() {
    const SbatchOption* const option = find("gres");
    if (option == nullptr || option->value == "none") return std::nullopt;
    std::optional<std::int64_t> total;
    for (const std::string& part : split_at(option->value, ',')) {
        const auto number = slurm_gres("gpu", part);
        if (!number) {
            refuse(*option,
                   "gpu, gpu:N or gpu:TYPE:N, because GPUs are Roll's only generic resource");
            return std::nullopt;
        }
        total = std::min(total.value_or(0) + *number, kMost);
    }
    return total;
}

void Translation::read_gpus(std::int64_t nodes, std::int64_t tasks,
                            std::optional<std::int64_t> all) {
    auto each = gpu_count("gpus-per-node");
    if (const auto gres = gres_gpus(); !each) each = gres;
    if (!each)
        if (const auto per_task = gpu_count("gpus-per-task"))
            each = std::min(*per_task * tasks, kMost);
    if (!each && all && *all % nodes != 0)
        refuse(*find("gpus"), fmt::format("a multiple of the number of nodes, {}, because all "
                                          "nodes of a job have equally many GPUs",
                                          nodes));
    if (!each && all) each = *all / nodes;
    if (each) resources()["gpus_per_node"] = *each;
}

// Reads the options that determine the numbers of nodes, tasks, slots and GPUs.
void Translation::read_sizes() {
    std::int64_t nodes = 1;
    if (const SbatchOption* const option = find("nodes")) {
        const auto range = split_at(option->value, '-');
        const auto least = slurm_count(range.front()), most = slurm_count(range.back());
        if (range.size() > 2 || !least || !most || *least < 1 || *most < *least || *least > kMost)
            refuse(*option, fmt::format("N or N-M with whole numbers from 1 to {}", kMost));
        else
            nodes = *least;
    }
    auto ntasks = count("ntasks");
    const auto per_node = count("ntasks-per-node");
    const auto per_gpu = count("ntasks-per-gpu");
    const auto all_gpus = gpu_count("gpus");
    if (!ntasks && per_gpu && all_gpus) ntasks = std::min(*per_gpu * *all_gpus, kMost);
    if (find("nodes") == nullptr && ntasks && per_node)
        nodes = (*ntasks + *per_node - 1) / *per_node;
    if (ntasks && *ntasks < nodes) {
        reading_.read.push_back(fmt::format(
            "  note: the number of nodes is lowered to {}, the number of tasks", *ntasks));
        nodes = *ntasks;
    }
    const std::int64_t tasks = ntasks ? (*ntasks + nodes - 1) / nodes : per_node.value_or(1);
    resources()["nodes"] = nodes;
    resources()["tasks_per_node"] = 1;
    read_gpus(nodes, tasks, all_gpus);
    const auto per_task = count("cpus-per-task"), per_gpu_cpus = count("cpus-per-gpu");
    const std::int64_t gpus = resources().value("gpus_per_node", 0);
    std::int64_t slots = tasks * per_task.value_or(1);
    if (per_gpu_cpus) slots = std::max<std::int64_t>(*per_gpu_cpus * gpus, 1);
    if (find("overcommit") != nullptr) slots = per_task.value_or(1);
    slots = std::min(std::max(slots, count("mincpus").value_or(1)), kMost);
    resources()["slots_per_node"] = slots;
    for (const auto& [key, value] : {std::pair("ntasks", ntasks),
                                     {"ntasks_per_node", per_node},
                                     {"cpus_per_task", per_task},
                                     {"cpus_per_gpu", per_gpu_cpus}})
        if (value) slurm()[key] = *value;
    read_memory();
    read_switches(nodes);
}

// Sets resources.memory from --mem, --mem-per-cpu or --mem-per-gpu. If several of these options are
// given, the first given option in this order applies. In Slurm, 0 means the whole memory of the
// node. Roll has no such value, so the job then has no memory limit.
void Translation::read_memory() {
    const std::int64_t slots = resources()["slots_per_node"];
    const std::int64_t gpus = resources().value("gpus_per_node", 0);
    struct Kind {
        const char* option;
        const char* key;  // key in the section `sbatch`, for Slurm's variable of the same name
        // Number of units (nodes, CPUs or GPUs) per node to which the option's value applies.
        std::int64_t count;
    };
    for (const auto& [name, key, count] : {Kind{"mem", "mem_per_node", 1},
                                           {"mem-per-cpu", "mem_per_cpu", slots},
                                           {"mem-per-gpu", "mem_per_gpu", gpus}}) {
        const SbatchOption* const option = find(name);
        if (option == nullptr) continue;
        const auto size = slurm_mebibytes(option->value);
        if (!size || *size > kMebibytesMost)
            refuse(*option, "a whole number with a suffix K, M, G or T, such as 16G");
        else if (*size > 0)
            slurm()[key] = *size;
        if (size && *size <= kMebibytesMost && *size * count > 0)
            resources()["memory"] = fmt::format("{}MiB", *size * count);
        return;
    }
}

void Translation::read_switches(std::int64_t nodes) {
    const SbatchOption* const option = find("switches");
    if (option == nullptr) return;
    const auto switches = slurm_number(option->value.substr(0, option->value.find('@')));
    if (!switches || *switches < 1)
        refuse(*option, "a whole number of at least 1, optionally followed by @TIME");
    else if (*switches == 1)
        resources()["segment"] = nodes;
}

void Translation::read_name() {
    Json& document = reading_.document;
    std::string name = document["name"];
    if (const SbatchOption* const option = find("job-name")) name = option->value;
    document["name"] = roll_name(name);
    if (document["name"] != name && !name.empty()) slurm()["name"] = name;
}

void Translation::read_texts() {
    Json& document = reading_.document;
    const bool array = find("array") != nullptr;
    document["stdout"] = array ? "slurm-%A_%a.out" : "slurm-%j.out";
    for (const auto& [name, key] : {std::pair("output", "stdout"), {"error", "stderr"}})
        if (const SbatchOption* const option = find(name))
            option->value.empty() ? refuse(*option, "the name of a file")
                                  : void(document[key] = option->value);
    if (const SbatchOption* const option = find("chdir"))
        document["workdir"] = std::filesystem::absolute(option->value).lexically_normal();
    if (const SbatchOption* const option = find("comment")) slurm()["comment"] = option->value;
    if (const SbatchOption* const option = find("input")) slurm()["input"] = option->value;
    slurm()["open_mode"] = "truncate";
    if (const SbatchOption* const option = find("open-mode")) {
        const std::string& mode = option->value;
        const bool append = mode == "append" || mode == "a";
        if (!append && mode != "truncate" && mode != "t")
            refuse(*option, "append or truncate");
        else
            slurm()["open_mode"] = append ? "append" : "truncate";
    }
}

void Translation::read_times() {
    if (const SbatchOption* const option = find("time")) {
        const auto limit = slurm_duration(option->value);
        if (!limit)
            refuse(*option, kTimeLimit);
        else if (limit->count() > 0)
            resources()["time"] = fmt::format("{}s", limit->count());
    }
    for (const char* name : {"begin", "deadline"}) {
        const SbatchOption* const option = find(name);
        if (option == nullptr) continue;
        const auto when = slurm_instant(option->value, now_);
        when ? void(reading_.document[name] = to_iso8601(*when)) : refuse(*option, kInstant);
    }
    if (const SbatchOption* const option = find("array"))
        reading_.document["array"] = option->value;
}

void Translation::read_queue() {
    Json& document = reading_.document;
    if (find("hold") != nullptr) document["hold"] = true;
    if (const SbatchOption* const option = find("nice")) {
        const bool negative = option->value.starts_with('-');
        const auto nice = option->value.empty() ? std::optional(100)
                                                : slurm_number(option->value.substr(negative));
        if (!nice)
            refuse(*option, "a whole number");
        else
            document["priority"] = std::max(negative ? *nice : -*nice, kLowestPriority);
    }
    if (const SbatchOption* const option = find("priority")) {
        const auto priority = slurm_number(option->value);
        if (!priority && option->value != "TOP")
            refuse(*option, "a whole number of at least 0, or TOP");
        if (priority) document["priority"] = *priority;
    }
    read_requeue();
    for (const char* name : {"wait", "parsable", "quiet", "test-only", "help", "usage", "version"})
        if (find(name) != nullptr) reading_.submission.emplace_back(name);
    if (const SbatchOption* const option = find("wait-all-nodes");
        option != nullptr && option->value != "0" && option->value != "1")
        refuse(*option, "0 or 1");
}

void Translation::read_requeue() {
    const auto place = [&](const char* name) {
        return std::ranges::find(order_, name, &SbatchOption::name) - order_.begin();
    };
    const bool never = find("no-requeue") != nullptr &&
                       (find("requeue") == nullptr || place("no-requeue") > place("requeue"));
    if (never) reading_.document["retry"] = {{"infra", 0}, {"preempted", 0}};
}

void Translation::read_dependency() {
    const SbatchOption* const option = find("dependency");
    if (option == nullptr) return;
    static const std::map<std::string, std::string> kTypes = {
        {"afterok", "ok"}, {"afterany", "any"}, {"afternotok", "failed"}};
    const auto allowed = [&] {
        refuse(*option,
               "afterok, afterany and afternotok with ids of jobs, such as "
               "afterok:12:13,afterany:14");
    };
    Json after = Json::array();
    for (const std::string& part : split_at(option->value, ',')) {
        std::vector<std::string> words = split_at(part, ':');
        // An id without a type means afterany.
        if (words.size() == 1 && slurm_number(words[0])) words.insert(words.begin(), "afterany");
        const auto type = kTypes.find(words[0]);
        if (type == kTypes.end() || words.size() < 2) return allowed();
        for (std::size_t i = 1; i < words.size(); ++i) {
            if (slurm_number(words[i]).value_or(0) == 0) return allowed();
            after.push_back(type->second + ":" + words[i]);
        }
    }
    reading_.document["after"] = after;
    slurm()["dependency"] = option->value;
}

// Reads --export. Its value is ALL, NONE, NIL, or a list of names with or without values.
void Translation::read_export() {
    Json& document = reading_.document;
    const SbatchOption* const option = find("export");
    // A job in a container does not get the variables of this shell by default, because the
    // container has its own PATH.
    const bool all =
        option == nullptr && find("export-file") == nullptr && find("container-image") == nullptr;
    document["export_env"] = all ? "all" : "none";
    read_export_file();
    if (option == nullptr) return;
    slurm()["export"] = option->value;
    for (const std::string& word : split_at(option->value, ',')) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (word == "ALL") {
            document["export_env"] = "all";
        } else if (equals != std::string::npos && equals > 0) {
            set_variable(*option, name, word.substr(equals + 1));
        } else if (word != "NONE" && word != "NIL") {
            copy_variable(*option, name);
        }
    }
}

// Leaves out a variable that Roll sets in each job, because a job's own value is refused.
void Translation::set_variable(const SbatchOption& by, const std::string& name,
                               const std::string& value) {
    if (name != "ROLL_WORKER" && name != "ROLL_JOB" && name != "ROLL_TOKEN")
        reading_.document["env"][name] = value;
    else
        reading_.read.push_back(
            fmt::format("  no effect: {} of --{}: Roll sets this variable", name, by.name));
}

// Leaves out a name that is not set in this environment, like Slurm.
void Translation::copy_variable(const SbatchOption& option, const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    if (value != nullptr && !name.empty()) set_variable(option, name, value);
}

void Translation::read_export_file() {
    const SbatchOption* const option = find("export-file");
    if (option == nullptr) return;
    const auto text = read_regular_file(option->value);
    if (!text) return refuse(*option, "a readable file (" + text.error().message + ")");
    for (const std::string& word : split_at(*text, '\0')) {
        const std::size_t equals = word.find('=');
        if (word.empty()) continue;
        if (equals == std::string::npos || equals == 0)
            return refuse(*option, "a file with NAME=VALUE entries, each followed by a zero byte");
        set_variable(*option, word.substr(0, equals), word.substr(equals + 1));
    }
}

void Translation::read_signal() {
    const SbatchOption* const option = find("signal");
    if (option == nullptr) return;
    const auto signal = slurm_signal(option->value);
    if (!signal) return refuse(*option, "[B:]SIGNAL[@SECONDS], such as USR1@90 or B:TERM@60");
    slurm()["signal"] = {
        {"number", signal->number}, {"before", signal->seconds}, {"script", signal->batch}};
}

// Reads the options of pyxis. Like pyxis, ignores them without --container-image.
void Translation::read_container() {
    const SbatchOption* const image = find("container-image");
    if (image == nullptr) return;
    const auto read = [&](const SbatchOption& option, Result<Json> value, Json& key) {
        value ? void(key = *std::move(value)) : refuse(option, value.error().message);
    };
    Json& container = reading_.document["container"];
    read(*image, spec::pyxis_image(image->value), container);
    if (const SbatchOption* const option = find("container-mounts"))
        read(*option, spec::pyxis_mounts(option->value), container["binds"]);
    if (find("container-mount-home") != nullptr)
        if (const char* const home = std::getenv("HOME")) container["binds"].push_back(home);
    if (const SbatchOption* const option = find("container-workdir"))
        option->value.starts_with('/') ? void(container["workdir"] = option->value)
                                       : refuse(*option, "an absolute path");
    if (const SbatchOption* const option = find("container-env"))
        for (const std::string& name : split_at(option->value, ',')) copy_variable(*option, name);
    const auto exclude = [&](const SbatchOption& option, const char* why) {
        reading_.problems.push_back(
            fmt::format("{}{}: cannot be used with --container-image, because {}", option.place,
                        option_text(option), why));
    };
    // The number of nodes comes from the first given option of --nodes, --ntasks and --gpus.
    const SbatchOption* sizes = find("nodes");
    for (const char* name : {"ntasks", "gpus"})
        if (sizes == nullptr) sizes = find(name);
    if (resources()["nodes"] != 1 && sizes != nullptr)
        exclude(*sizes,
                "the script runs in the container, where srun cannot start tasks on other nodes");
    for (const char* name : {"input", "signal"})
        if (const SbatchOption* const option = find(name))
            exclude(*option, "it does not reach a script in a container");
}

// Returns "PATH VALUE, PATH VALUE" for the keys that an option sets.
std::string set_values(const OrderedJson& paths, const Json& document) {
    std::vector<std::string> texts;
    for (const OrderedJson& path : paths) {
        std::string pointer = "/" + path.get<std::string>();
        std::ranges::replace(pointer, '.', '/');
        const Json::json_pointer at(pointer);
        if (!document.contains(at) || document[at].is_object() || pointer == "/script") continue;
        texts.push_back(fmt::format("{} {}", path.get<std::string>(), dump(document[at])));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

// Appends to `reading_.read` a line for each option, which says how Roll has read the option.
// Appends to `reading_.problems` a problem for each refused option.
void Translation::describe() {
    for (const SbatchOption& option : order_) {
        const OrderedJson& entry = sbatch_entry(option.name);
        const auto why = [&](const char* key) { return entry[key].get<std::string>(); };
        if (entry.contains("refused"))
            reading_.problems.push_back(
                fmt::format("{}{}: {}", option.place, option_text(option), why("refused")));
        if (entry.contains("no_effect"))
            reading_.read.push_back(
                fmt::format("  no effect: {}: {}", option_text(option), why("no_effect")));
        if (!entry.contains("sets")) continue;
        if (option.name.starts_with("container-") && !reading_.document.contains("container")) {
            reading_.read.push_back(
                fmt::format("  no effect: {}: --container-image is missing", option_text(option)));
            continue;
        }
        const std::string values = set_values(entry["sets"], reading_.document);
        reading_.read.push_back(
            fmt::format("  {}: {}", option_text(option), values.empty() ? why("reads") : values));
    }
}

SbatchReading Translation::run() {
    slurm() = Json::object();
    resources() = Json::object();
    read_name();
    read_sizes();
    read_texts();
    read_times();
    read_queue();
    read_dependency();
    read_export();
    read_signal();
    read_container();
    describe();
    return std::move(reading_);
}

}  // namespace

SbatchReading translate_sbatch(const std::vector<SbatchOption>& options, Json document, Time now) {
    return Translation(options, std::move(document), now).run();
}

}  // namespace roll::cli
