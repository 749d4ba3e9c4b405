#include "worker/agent/process/command.hpp"

#include <algorithm>
#include <filesystem>

#include "common/replace.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/job/log_name.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/placeholders.hpp"
#include "worker/agent/core/attempt.hpp"

namespace roll::agent {
namespace {

// Value of %a for a job that is not in an array, as in sbatch
constexpr const char* kNoIndex = "4294967294";

// Returns the path of the log with this name; empty if this rank has no log of this name.
std::string log_path(const protocol::StartOrder& order, const CommandDocument& document,
                     const CommandPlace& place, const std::string& name) {
    const int rank = order.node_rank * programs_of(order) + place.local_rank;
    if (name.empty() || (rank > 0 && !spec::has_specifier(name, "rtnN"))) return "";
    const auto place_in_array = array_place(order, document);
    const std::string id = std::to_string(order.attempt.job.value);
    const spec::LogNameValues values = {
        {'j', id},
        {'J', id},
        {'A', place_in_array ? std::to_string(place_in_array->first) : id},
        {'a', place_in_array ? std::to_string(place_in_array->index) : kNoIndex},
        {'N', place.node},
        {'n', std::to_string(order.node_rank)},
        {'r', std::to_string(rank)},
        {'t', std::to_string(rank)},
        {'s', "batch"},
        {'x', name_of(document)}};
    const std::filesystem::path file = spec::expand_log_name(name, values, true);
    return (std::filesystem::path(place.directory) / file).lexically_normal();
}

Result<BatchScript> read_batch(const Json& json) {
    JsonReader r(json, "job.sbatch");
    BatchScript batch;
    batch.name = r.get_or("name", std::string{});
    batch.tasks = r.get_or("ntasks", 0);
    batch.tasks_per_node = r.get_or("ntasks_per_node", 0);
    batch.cpus_per_task = r.get_or("cpus_per_task", 0);
    batch.cpus_per_gpu = r.get_or("cpus_per_gpu", 0);
    batch.mem_per_node = r.get_or("mem_per_node", 0);
    batch.mem_per_cpu = r.get_or("mem_per_cpu", 0);
    batch.mem_per_gpu = r.get_or("mem_per_gpu", 0);
    batch.submit_directory = r.get_or("submit_dir", std::string{});
    batch.submit_host = r.get_or("submit_host", std::string{});
    batch.input = r.get_or("input", std::string{});
    batch.append = r.get_or("open_mode", std::string{}) == "append";
    batch.export_names = r.get_or("export", std::string{});
    batch.dependency = r.get_or("dependency", std::string{});
    const Json signal = r.raw("signal");
    ROLL_TRY_VOID(r.finish_lenient());
    if (!signal.is_object()) return batch;
    JsonReader s(signal, "job.sbatch.signal");
    batch.signal = s.get<int>("number");
    batch.signal_before = s.get<int>("before");
    batch.signal_to_script = s.get_or("script", false);
    ROLL_TRY_VOID(s.finish_lenient());
    return batch;
}

}  // namespace

std::filesystem::path files_directory(const std::filesystem::path& files, const AttemptKey& key) {
    return files / (std::to_string(key.job.value) + "-" + to_string(key.token));
}

const std::string& name_of(const CommandDocument& document) {
    const bool other = document.batch && !document.batch->name.empty();
    return other ? document.batch->name : document.name;
}

std::optional<ArrayPlace> array_place(const protocol::StartOrder& order,
                                      const CommandDocument& document) {
    const auto index = document.environment.find("ROLL_ARRAY_INDEX");
    const auto array = spec::parse_array(document.array);
    if (!array || index == document.environment.end()) return std::nullopt;
    ArrayPlace found{order.attempt.job.value, std::atoi(index->second.c_str()), {}};
    if (auto indices = spec::array_indices(array->indices)) found.indices = *std::move(indices);
    const auto at = std::ranges::find(found.indices, found.index);
    if (at != found.indices.end())
        found.first -= static_cast<std::uint64_t>(at - found.indices.begin());
    return found;
}

Result<CommandDocument> read_command(const Json& document, const std::string& files) {
    JsonReader r(document, "job");
    CommandDocument result;
    result.command = r.get<std::vector<std::string>>("command");
    result.script = r.get_or("script", std::string{});
    result.workdir = r.get_or("workdir", std::string{});
    result.setup = r.get_or("setup", std::string{});
    result.cleanup = r.get_or("cleanup", std::string{});
    result.modules = r.get_or("modules", std::vector<std::string>{});
    result.output = r.get_or("stdout", std::string{});
    result.error = r.get_or("stderr", std::string{});
    result.name = r.get_or("name", std::string{});
    result.array = r.get_or("array", std::string{});
    result.secrets = r.get_or("secrets", std::vector<std::string>{});
    const Json batch = r.raw("sbatch");
    const Json container = r.raw("container");
    const Json& environment = r.raw("env");
    ROLL_TRY_VOID(r.finish_lenient());
    for (const auto& [name, value] : environment.items())
        result.environment[name] = value.is_string() ? value.get<std::string>() : value.dump();
    if (batch.is_object()) {
        ROLL_TRY(result.batch, read_batch(batch));
    }
    if (container.is_object()) {
        ROLL_TRY(result.container, read_container(container));
    }
    if (result.command.empty() || result.command[0].empty())
        return fail(ErrorCode::InvalidArgument,
                    "the job's command is empty; name the program to run");
    if (files.empty()) return result;
    for (std::string& word : result.command) word = replaced(word, spec::kFilesDirectory, files);
    if (result.workdir.starts_with(spec::kFilesDirectory))
        result.workdir = replaced(result.workdir, spec::kFilesDirectory, files);
    return result;
}

// With `cleanup`, the shell stays the parent of the program and survives SIGTERM; otherwise the
// program replaces the shell (exec). A signal makes `wait` return early, so the shell repeats
// `wait` until the program has ended.
std::vector<std::string> shell_words(const CommandDocument& document, bool forwards_sigterm) {
    constexpr const char* kForward =
        "exec 9<&0\n\"$@\" <&9 9<&- &\nchild=$!\n"
        "trap 'kill -TERM \"$child\" 2>/dev/null' TERM\n"
        "while :; do wait \"$child\"; status=$?; kill -0 \"$child\" 2>/dev/null || break; done\n"
        "exit \"$status\"";
    const bool has_modules = !document.modules.empty();
    if (document.setup.empty() && document.cleanup.empty() && !has_modules) return document.command;
    const std::string before = document.setup.empty() ? "modules"
                               : has_modules          ? "modules or setup"
                                                      : "setup";
    // The start files of a login shell replace PATH, so set PATH to its earlier value ($1). If
    // these files have loaded modules, reload the modules: they add their directories to PATH.
    std::string text = has_modules ? "PATH=$1\n"
                                     "[ \"$LOADEDMODULES\" = \"$2\" ] || module reload\n"
                                     "shift 2\n"
                                   : "";
    // `cleanup` runs in a subshell, so an `exit` in it does not change the job's exit code. The
    // subshell must survive SIGTERM, too, and see the program's status in $?.
    const bool cleans = !document.cleanup.empty();
    const std::string cleanup =
        cleans ? "(trap : TERM\n(exit \"$roll_status\")\n" + document.cleanup + "\n) || :\n" : "";
    // If the command does not start, the shell sends the reason to roll-worker, as a program does
    // (protocol::Failed). In some containers, the descriptor for reports does not exist; the shell
    // then sends nothing.
    text +=
        "roll_end() {\nroll_status=$?\n"
        "[ -n \"$roll_ready\" ] || {\nroll_why=\"" +
        before +
        " ended with exit status $roll_status\"\n"
        "echo \"roll: $roll_why, so the command did not start\" >&2\n"
        R"((echo "{\"t\":\"failed\",\"message\":\"$roll_why\"}" >&3) 2>/dev/null || :)"
        "\n}\n" +
        cleanup + "}\nroll_ready=\ntrap roll_end EXIT\n";
    if (cleans) text += "trap : TERM\n";
    text += "set -e\n";
    if (has_modules) text += "module load";
    for (const std::string& module : document.modules) text += " '" + module + "'";
    text += "\n" + document.setup + "\nset +e\nroll_ready=1\n";
    text += !cleans ? "trap - EXIT\nexec \"$@\"" : forwards_sigterm ? kForward : "\"$@\"\nexit $?";
    // The start files of a login shell define the function `module`, so run a login shell.
    std::vector<std::string> words = {"/bin/sh", "-c"};
    if (has_modules)
        words.push_back("exec /bin/bash -lc \"$0\" roll \"$PATH\" \"$LOADEDMODULES\" \"$@\"");
    words.push_back(text);
    if (!has_modules) words.push_back("roll");
    words.insert(words.end(), document.command.begin(), document.command.end());
    return words;
}

void name_logs(const protocol::StartOrder& order, const CommandDocument& document,
               const CommandPlace& place, GuardPlan& plan) {
    Program& program = plan.programs.back();
    program.error_log = log_path(order, document, place, document.error);
    if (const std::string path = log_path(order, document, place, document.output); !path.empty()) {
        program.link = program.log;
        program.log = path;
    }
    if (program.error_log == program.log) program.error_log.clear();
}

}  // namespace roll::agent
