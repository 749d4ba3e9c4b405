#include <array>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "common/spec/check/defaults.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/job/log_name.hpp"
#include "common/spec/job/retry.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

// Checks the keys of retry.on_exit, which must be exit codes. The schema cannot check keys.
std::vector<Problem> check_exit_codes(const Json& document) {
    std::vector<Problem> problems;
    for (const auto& [code, what] : document["retry"]["on_exit"].items()) {
        const bool digits = code.find_first_not_of("0123456789") == std::string::npos;
        const int value = digits && code.size() <= 3 ? std::atoi(code.c_str()) : 0;
        if (value < 1 || value > 255)
            problems.push_back({"retry.on_exit." + code, "is not an exit code; allowed: 1 to 255"});
    }
    return problems;
}

// Checks that only commands have `tasks_per_node` and only training jobs have `slots_per_rank`. For
// other kinds of jobs, Roll derives the number of processes in other ways.
std::vector<Problem> check_processes(const Json& document) {
    const auto& kind = document["kind"].get_ref<const std::string&>();
    const Json& tasks = member(document["resources"], "tasks_per_node");
    if (document.contains("sbatch") && tasks != 1)
        return {{"resources.tasks_per_node",
                 fmt::format("is {} in a batch script; allowed: 1, because srun in the script "
                             "starts the tasks (sbatch.ntasks_per_node)",
                             tasks.dump())}};
    std::vector<Problem> problems;
    const auto refuse = [&](const Json& resources, const std::string& path, const char* key,
                            const char* kinds) {
        if (!resources.contains(key)) return;
        problems.push_back({path + "." + key,
                            fmt::format("is {} in a job of kind {}; allowed only in a job of kind "
                                        "{}",
                                        resources[key].dump(), kind, kinds)});
    };
    const auto check = [&](const Json& resources, const std::string& path) {
        if (kind != "command") refuse(resources, path, "tasks_per_node", "command");
        if (!trains(document)) refuse(resources, path, "slots_per_rank", "train or resume");
    };
    check(document["resources"], "resources");
    int number = 0;
    for (const Json& variant : member(document["resources"], "variants"))
        check(variant, fmt::format("resources.variants[{}]", number++));
    return problems;
}

// Checks the specifiers in `stdout` and `stderr`.
std::vector<Problem> check_log_names(const Json& document) {
    std::vector<Problem> problems;
    for (const char* key : {"stdout", "stderr"}) {
        const Json& name = member(document, key);
        if (!name.is_string()) continue;
        const auto& text = name.get_ref<const std::string&>();
        if (const auto unknown = unknown_specifier(text))
            problems.push_back(
                {key, fmt::format("is {}, which has the unknown specifier {}; allowed: {}",
                                  dump(name), *unknown, kLogNameSpecifiers)});
        // The jobs of a batch script's array may share a file, as in Slurm.
        if (document.contains("array") && !document.contains("sbatch") &&
            !has_specifier(text, "aJj"))
            problems.push_back(
                {key, fmt::format("is {}, the same file for all jobs of the array; add %a or %j",
                                  dump(name))});
    }
    return problems;
}

// Checks a job that runs in a container. The keys `modules` and `sbatch` are refused, because they
// need programs that only the node has, not the container. The paths `output` and `workdir` must
// have no characters that prevent binding them into the container.
std::vector<Problem> check_container(const Json& document) {
    std::vector<Problem> problems;
    for (const char* key : {"modules", "sbatch"})
        if (document.contains("container") && document.contains(key))
            problems.push_back({key,
                                "cannot be used with `container`, because the programs of the node "
                                "are not in the container; remove one of these two keys"});
    for (const char* key : {"output", "workdir"}) {
        const std::string path = document.value(key, std::string());
        if (document.contains("container") && path.find_first_of(":, \t\n") != std::string::npos)
            problems.push_back({key, fmt::format("is {}; allowed with `container`: a path without "
                                                 "colons, commas and blanks",
                                                 path)});
    }
    return problems;
}

// Checks the names of the variables in `env`. roll-worker finds the processes of an attempt by the
// three marks, so a job must not change them.
std::vector<Problem> check_environment(const Json& document) {
    std::vector<Problem> problems;
    for (const auto& [name, value] : member(document, "env").items()) {
        const std::string path = "env." + name;
        if (name.empty() || name.find('=') != std::string::npos)
            problems.push_back({path, "is not a variable name; allowed: a name without `=`"});
        else if (name == "ROLL_WORKER" || name == "ROLL_JOB" || name == "ROLL_TOKEN")
            problems.push_back({path,
                                "cannot be set, because Roll sets it and finds the processes of "
                                "the job by it; remove it"});
    }
    return problems;
}

// Checks that no secret has the name of a key of `env`.
std::vector<Problem> check_secrets(const Json& document) {
    std::vector<Problem> problems;
    const Json& env = member(document, "env");
    for (const Json& name : member(document, "secrets")) {
        if (env.contains(name.get<std::string>()))
            problems.push_back({"env." + name.get<std::string>(),
                                "is also in `secrets`; remove it from `env` or from `secrets`"});
    }
    return problems;
}

// Checks the times of the job. Refuses a hang time of 0, because it could mean never or at once.
std::vector<Problem> check_times(const Json& document) {
    std::vector<Problem> problems;
    const auto refuse = [&](const std::string& path, std::string message) {
        problems.push_back({path, std::move(message)});
    };
    for (const char* key : {"hang_after", "hang_first_step"}) {
        const std::string time = document.value(key, "auto");
        if (time != "auto" && time != "never" && parse_duration(time).value().count() == 0)
            refuse(key, fmt::format("is {}; allowed: auto, never, or at least 1s", time));
    }
    const Json &begin = member(document, "begin"), &deadline = member(document, "deadline");
    if (begin.is_string() && deadline.is_string() &&
        parse_instant(begin.get<std::string>()).value() >=
            parse_instant(deadline.get<std::string>()).value())
        refuse("begin", fmt::format("is {}; allowed: a time before the deadline, {}",
                                    begin.get<std::string>(), deadline.get<std::string>()));
    // If backoff_max has its default, a larger backoff is used as it is. Only another backoff_max
    // contradicts the backoff.
    const Json& retry = document["retry"];
    const auto most = parse_duration(retry["backoff_max"].get<std::string>()).value();
    if (most != Retry().backoff_max &&
        parse_duration(retry["backoff"].get<std::string>()).value() > most)
        refuse("retry.backoff",
               fmt::format("is {}; allowed: at most retry.backoff_max, which is {}",
                           retry["backoff"].get<std::string>(),
                           retry["backoff_max"].get<std::string>()));
    return problems;
}

// Checks that a conversion has one source, and that this source is a job if convert.of is "best",
// because a directory has no recorded losses.
std::vector<Problem> check_source(const Json& document) {
    const Json& convert = member(document, "convert");
    if (!convert.contains("source")) return {};
    if (convert.contains("source_job"))
        return {{"convert.source_job", fmt::format("is {}, but convert.source also names a source; "
                                                   "remove one of these two keys",
                                                   convert["source_job"].dump())}};
    if (member(convert, "of") != "best") return {};
    return {{"convert.of",
             "is `best`, but a directory has no best checkpoint; set convert.of to `last`, or use "
             "source_job instead of source"}};
}

}  // namespace

std::vector<Problem> job_problems(const Json& document, bool stored) {
    using Rule = std::vector<Problem> (*)(const Json&);
    constexpr std::array<Rule, 9> kRules{check_exit_codes, check_environment, check_secrets,
                                         check_container,  check_files,       check_resources,
                                         check_processes,  check_log_names,   check_source};
    for (const Rule rule : kRules)
        if (std::vector<Problem> problems = rule(document); !problems.empty()) return problems;
    return stored ? std::vector<Problem>() : check_times(document);
}

}  // namespace roll::spec
