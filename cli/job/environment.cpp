#include "cli/job/environment.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "cli/text/render.hpp"
#include "common/secret_name.hpp"
#include "common/spec/job/log_name.hpp"

namespace roll::cli {
namespace {

bool starts_with_one_of(const std::string& name, std::initializer_list<const char*> prefixes) {
    return std::ranges::any_of(prefixes, [&](const char* one) { return name.starts_with(one); });
}

bool is_usual(const std::string& name) {
    return name == "PATH" || name == "VIRTUAL_ENV" || name.starts_with("CONDA_");
}

// Returns whether a variable describes the shell or job in which rollctl runs, and not the new job.
bool is_of_this_process(const std::string& name) {
    static const std::set<std::string> kNames = {
        "_",          "SHLVL",       "PWD",        "OLDPWD",
        "RANK",       "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"};
    return kNames.contains(name) ||
           starts_with_one_of(name, {"ROLL_", "SLURM_", "SLURMD_", "SBATCH_", "TORCHELASTIC_"});
}

bool is_text(const std::string& value) {
    return Json(value).dump(-1, ' ', false, Json::error_handler_t::ignore) ==
           Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void capture_one(Json& document, const std::vector<std::string>& environment,
                 std::set<std::string>& left_out) {
    // By default, a job in a container gets no variables of this environment, because a container
    // has its own PATH.
    const Json how =
        document.value("export_env", Json(document.contains("container") ? "none" : "default"));
    if (how != "default" && how != "all" && how != "none")
        return;  // the schema's check reports this value
    Json env = document.value("env", Json::object());
    if (!env.is_object()) return;
    for (const std::string& variable : environment) {
        const std::string name = variable.substr(0, variable.find('='));
        const bool wanted =
            how == "all" ? !is_of_this_process(name) : how == "default" && is_usual(name);
        if (!wanted || name.size() == variable.size() || env.contains(name)) continue;
        const Json secrets = document.value("secrets", Json::array());
        const bool is_stored = std::ranges::find(secrets, Json(name)) != secrets.end();
        const std::string value = variable.substr(name.size() + 1);
        if (looks_secret(name) && !is_stored) left_out.insert(name);
        if (!looks_secret(name) && !is_stored && is_text(name) && is_text(value)) env[name] = value;
    }
    if (!env.empty()) document["env"] = std::move(env);
    document["export_env"] = "none";
}

// Returns whether a value of the environment is hidden in a job file or in the later jobs of its
// chain.
bool has_hidden_value(const Json& document) {
    if (!document.is_object()) return false;
    const Json env = document.value("env", Json::object());
    const Json then = document.value("then", Json::array());
    return std::ranges::any_of(env, [](const Json& value) { return value.is_null(); }) ||
           std::ranges::any_of(then, has_hidden_value);
}

}  // namespace

std::vector<std::string> capture_environment(Json& document,
                                             const std::vector<std::string>& environment,
                                             const std::string& user) {
    std::set<std::string> left_out;
    if (!document.is_object()) return {};
    if (document.value("kind", Json()) == "command") {
        capture_one(document, environment, left_out);
        for (const char* key : {"stdout", "stderr"}) {
            const Json name = document.value(key, Json());
            if (name.is_string())
                document[key] =
                    spec::expand_log_name(name.get<std::string>(), {{'u', user}}, false);
        }
    }
    if (document.contains("then") && document["then"].is_array()) {
        for (Json& next : document["then"])
            for (std::string& name : capture_environment(next, environment, user))
                left_out.insert(std::move(name));
    }
    return {left_out.begin(), left_out.end()};
}

Result<void> refuse_hidden_values(const Json& job) {
    if (!has_hidden_value(job.value("spec", Json()))) return {};
    return fail(ErrorCode::Refused,
                fmt::format("job {} belongs to {}, and only this user may read the values of its "
                            "environment",
                            field_text(job, "id"), field_text(job, "user")),
                "ask the job's owner to submit the job again");
}

}  // namespace roll::cli
