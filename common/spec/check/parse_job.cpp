#include "common/spec/check/parse_job.hpp"

#include <fmt/format.h>

#include "common/check.hpp"
#include "common/json.hpp"
#include "common/spec/check/chain_rules.hpp"
#include "common/spec/check/document_size.hpp"
#include "common/spec/check/file_rules.hpp"
#include "common/spec/check/parse_sweep.hpp"
#include "common/spec/check/resource_rules.hpp"
#include "common/spec/check/sizes.hpp"
#include "common/spec/job/features.hpp"
#include "common/spec/job/log_name.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/schema/units.hpp"
#include "common/spec/train/train.hpp"

namespace roll::spec {
namespace {

void append(std::vector<Problem>& all, std::vector<Problem> more) {
    for (Problem& problem : more) all.push_back(std::move(problem));
}

bool trains(const Json& document) {
    const Json kind = document.value("kind", Json());
    return kind == "train" || kind == "resume";
}

bool reads_text(const Json& document) {
    return trains(document) || document.value("kind", Json()) == "tokenize";
}

// Sets the resources of a tokenize job to one program without a GPU. The job file may request more,
// because it may be a copy of a train job's file.
void fill_tokenize(Json& document) {
    Json& resources = document["resources"];
    if (document.value("kind", Json()) != "tokenize" || !resources.is_object()) return;
    resources["nodes"] = 1;
    resources["gpus_per_node"] = 0;
}

// Sets retry.app, the number of retries after failures of the program itself, to 0 for a command
// job. A value in the job file has precedence.
void fill_tries(Json& document) {
    if (document.value("kind", Json()) != "command") return;
    if (!document.contains("retry")) document["retry"] = Json::object();
    if (document["retry"].is_object()) document["retry"].emplace("app", 0);
}

// Sets slots_per_node of a gang (a command with tasks_per_node) without GPUs to the number of its
// processes on each node. A value in the job file has precedence.
void fill_slots(Json& document) {
    const Json resources = document.value("resources", Json());
    if (!resources.is_object() || resources.contains("slots_per_node")) return;
    const Json tasks = resources.value("tasks_per_node", Json());
    const bool on_gpus = resources.value("gpus_per_node", Json(0)) != 0;
    if (tasks.is_number_integer() && !on_gpus) document["resources"]["slots_per_node"] = tasks;
}

// Sets the default beta2 of Lion, which differs from the default of the other kinds.
void fill_optimizer(Json& document) {
    constexpr double kLionBeta2 = 0.99;
    const Json::json_pointer here("/train/optimizer");
    if (!document.contains(here) || !document[here].is_object()) return;
    Json& optimizer = document[here];
    if (optimizer.value("kind", Json()) == "lion" && !optimizer.contains("beta2"))
        optimizer["beta2"] = kLionBeta2;
}

// Sets retry.no_progress to 0, which means no limit, if the job saves a checkpoint only at its end.
// A failed attempt of such a job never leaves a checkpoint. A value in the job file has precedence.
void fill_no_progress(Json& document) {
    const Json checkpoint = document.value("checkpoint", Json::object());
    const Json retry = document.value("retry", Json::object());
    if (!trains(document) || !checkpoint.is_object() || !retry.is_object()) return;
    if (checkpoint.value("every", Json(0)) == 0 && !retry.contains("no_progress"))
        document["retry"]["no_progress"] = 0;
}

// Returns true if a training job exports a LoRA adapter, not a whole model.
bool exports_adapter(const Json& document) {
    return document.contains(Json::json_pointer("/train/lora")) &&
           document["export"].value("merge", Json()) != true;
}

// Makes a batch script a gang with one process on each node, so that the script learns the names of
// the job's nodes. A value of tasks_per_node in the job file has precedence. On the first node,
// Roll starts only the script.
void fill_batch(Json& document) {
    if (!document.contains("sbatch")) return;
    if (!document.contains("resources")) document["resources"] = Json::object();
    Json& resources = document["resources"];
    if (resources.is_object() && !resources.contains("tasks_per_node"))
        resources["tasks_per_node"] = 1;
}

// Fills defaults that depend on other keys. The schema cannot express such defaults.
void fill_derived(Json& document, const std::string& base) {
    if (!document.contains("output") && document.value("name", Json()).is_string()) {
        document["output"] =
            fmt::format("{}/runs/{}-{{id}}", base, document["name"].get<std::string>());
    }
    Json* const how = document.contains("export") ? &document["export"] : nullptr;
    if (!trains(document) || how == nullptr || !how->is_object()) return;
    // export.of defaults to "best" if the job keeps its best checkpoint.
    const Json::json_pointer best("/checkpoint/keep_best");
    if (!how->contains("of"))
        (*how)["of"] = document.contains(best) && document[best] == true ? "best" : "last";
    if (!how->contains("dtype")) (*how)["dtype"] = exports_adapter(document) ? "fp32" : "bf16";
}

// Sets a missing tokenizer to the tokenizer of model.from, or to "bytes" if model.from is not set.
// Called after missing_inputs(), so that a missing model directory is reported only once.
void fill_tokenizer(Json& document) {
    const bool has_model = document.contains("model") && document["model"].is_object();
    if (!reads_text(document)) return;
    if (!document.contains("tokenizer"))
        document["tokenizer"] =
            has_model ? document["model"].value("from", Json("bytes")) : Json("bytes");
    if (!has_model) return;
    Json& model = document["model"];
    const bool sized = model.contains("vocab_size") || model.contains("from");
    if (document["tokenizer"] == "bytes" && !sized) model["vocab_size"] = 256;
}

// Returns the problem that train_spec() finds in a document that has passed all other checks.
// Returns an empty list if there is no problem.
std::vector<Problem> unreadable(Json document) {
    if (!trains(document)) return {};
    // Before rollctl sends the job, it replaces these keys by values that it has chosen.
    if (document["parallel"].value("layout", Json()) == "auto")
        document["parallel"].erase("layout");
    if (document["train"]["micro_batch_size"] == "auto") document["train"]["micro_batch_size"] = 1;
    const auto spec = train_spec(document.dump());
    return spec ? std::vector<Problem>() : std::vector<Problem>{{"", spec.error().message}};
}

// Checks the sizes in the document once for each variant, with the variant's resources in place of
// the job's resources. Returns the problems that impossible_sizes() finds.
std::vector<Problem> impossible_variants(const Json& document) {
    std::vector<Problem> problems;
    const Json variants = document["resources"].value("variants", Json::array());
    for (int i = 1; i <= static_cast<int>(variants.size()); ++i) {
        for (Problem& problem : impossible_sizes(with_variant(document, i)))
            problems.push_back({fmt::format("resources.variants[{}]", i - 1),
                                fmt::format("{} {}", problem.path, problem.message)});
    }
    return problems;
}

After parse_after(const std::string& text) {
    const std::size_t colon = text.find(':');
    return {parse_condition(text.substr(0, colon)).value(),
            JobId{std::stoull(text.substr(colon + 1))}};
}

// Parses the rule for an exit code or a log line: "stop" or {then: stop, label: oom}.
Meaning parse_meaning(const Json& json) {
    const Json then = json.is_object() ? json.value("then", Json()) : json;
    Meaning meaning;
    if (then.is_string()) meaning.then = parse_on_exit(then.get<std::string>());
    if (json.is_object()) meaning.label = json.value("label", "");
    return meaning;
}

// Reads a number of retries; "unlimited" becomes a very large number.
int read_tries(const Json& json) {
    constexpr int kUnlimited = 1'000'000'000;
    return json.is_string() ? kUnlimited : json.get<int>();
}

Retry parse_retry(const Json& json) {
    Retry retry{read_tries(json["infra"]), read_tries(json["app"]), read_tries(json["timeout"]),
                read_tries(json["preempted"]), json["no_progress"]};
    retry.backoff = parse_duration(json["backoff"].get<std::string>()).value();
    retry.backoff_max = parse_duration(json["backoff_max"].get<std::string>()).value();
    for (const auto& [code, what] : json["on_exit"].items())
        retry.on_exit[std::stoi(code)] = parse_meaning(what);
    for (const Json& one : json["on_log"])
        retry.on_log.push_back({one["match"], parse_meaning(one)});
    return retry;
}

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

// Checks that only commands have `tasks_per_node` and only training jobs have `slots_per_rank`.
// Other kinds of jobs derive their number of processes in other ways.
std::vector<Problem> check_processes(const Json& document) {
    const auto kind = document["kind"].get<std::string>();
    const Json tasks = document["resources"].value("tasks_per_node", Json(1));
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
    for (const Json& variant : document["resources"].value("variants", Json::array()))
        check(variant, fmt::format("resources.variants[{}]", number++));
    return problems;
}

// Checks the specifiers in `stdout` and `stderr`.
std::vector<Problem> check_log_names(const Json& document) {
    std::vector<Problem> problems;
    for (const char* key : {"stdout", "stderr"}) {
        const Json name = document.value(key, Json());
        if (!name.is_string()) continue;
        const auto& text = name.get_ref<const std::string&>();
        if (const auto unknown = unknown_specifier(text))
            problems.push_back(
                {key, fmt::format("is {}, which has the unknown specifier {}; allowed: {}",
                                  dump(name), *unknown, kLogNameSpecifiers)});
        // As in Slurm, the jobs of a batch script's array may share a file.
        if (document.contains("array") && !document.contains("sbatch") &&
            !has_specifier(text, "aJj"))
            problems.push_back(
                {key, fmt::format("is {}, the same file for all jobs of the array; add %a or %j",
                                  dump(name))});
    }
    return problems;
}

// Returns the features that a worker must have to run the job.
std::vector<std::string> needs_of(const JobSpec& spec, const Json& document) {
    std::vector<std::string> needs;
    bool gang = false, threads = false;
    for (int i = 0; i < spec.shapes(); ++i) {
        gang |= spec.shape(i).tasks_per_node > 0;
        threads |= spec.shape(i).slots_per_rank > 1;
    }
    const auto has = [&](const char* key) { return document.contains(key); };
    if (gang) needs.emplace_back(kGangs);
    if (has("setup") || has("cleanup") || has("modules")) needs.emplace_back(kScripts);
    if (has("stdout") || has("stderr")) needs.emplace_back(kLogNames);
    if (threads) needs.emplace_back(kSlotsPerRank);
    if (has("sbatch")) needs.emplace_back(kBatch);
    if (has("container")) needs.emplace_back(kContainer);
    if (has("files")) needs.emplace_back(kFiles);
    const auto at = [&](const char* path) {
        const Json::json_pointer pointer(path);
        return document.contains(pointer) ? document.at(pointer) : Json();
    };
    if (at("/checkpoint/format") == "torch_dist") needs.emplace_back(kTorchDist);
    const Json truncate = at("/data/truncate");
    if ((!truncate.is_null() && truncate != "end") || at("/data/packing") == "wrapped")
        needs.emplace_back(kLongRows);
    if (!at("/train/lora/layers").is_null() || !at("/train/lora/exclude").is_null())
        needs.emplace_back(kLoraLayers);
    return needs;
}

// Checks a job that runs in a container. The keys `modules` and `sbatch` are refused, because they
// need programs of the node, which the container does not have. The paths `output` and `workdir`
// must have no characters that prevent binding them into the container.
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

// Checks that no secret has the name of a key of `env`.
std::vector<Problem> check_secrets(const Json& document) {
    std::vector<Problem> problems;
    const Json env = document.value("env", Json::object());
    if (document.value("secrets", Json::array()).size() > kSecretsMax)
        problems.push_back(
            {"secrets", fmt::format("has too many names; allowed: at most {}", kSecretsMax)});
    for (const Json& name : document.value("secrets", Json::array())) {
        if (env.contains(name.get<std::string>()))
            problems.push_back({"env." + name.get<std::string>(),
                                "is also in `secrets`; remove it from `env` or from `secrets`"});
    }
    return problems;
}

// Reads begin, deadline and array. Adds ROLL_ARRAY_INDEX to the environment of an array's commands.
void read_when(Json& document, JobSpec& spec) {
    const auto instant = [&](const char* key) -> std::optional<Time> {
        if (!document.contains(key)) return std::nullopt;
        return parse_instant(document[key].get<std::string>()).value();
    };
    spec.begin = instant("begin");
    spec.deadline = instant("deadline");
    if (!document.contains("array")) return;
    spec.array = parse_array(document["array"].get<std::string>()).value();
    if (spec.kind == JobKind::Command) document["env"]["ROLL_ARRAY_INDEX"] = "{index}";
}

// Reads a document that has passed the checks and has all defaults.
JobSpec read_spec(Json& document) {
    JobSpec spec;
    spec.name = document["name"];
    const auto kind = parse_kind(document["kind"].get<std::string>());
    ROLL_CHECK(kind.has_value());
    spec.kind = *kind;
    spec.resources = read_resources(document["resources"]);
    spec.variants = read_variants(document["resources"]);
    for (const Json& one : document["after"]) spec.after.push_back(parse_after(one));
    spec.retry = parse_retry(document["retry"]);
    spec.priority = document["priority"];
    spec.hold = document["hold"];
    spec.cron = document.value("cron", "");
    spec.account = document.value("account", "");
    if (document.contains("into")) spec.into = JobId{document["into"]};
    spec.secrets = document.value("secrets", spec.secrets);
    if (const std::string hang = document.value("hang_after", "auto"); hang != "auto")
        spec.hang_after = hang == "never" ? std::chrono::seconds(0) : parse_duration(hang).value();
    read_when(document, spec);
    spec.output = document["output"];
    if (spec.kind == JobKind::Resume) spec.source_job = JobId{document["resume"]["job"]};
    if (spec.kind == JobKind::Convert && document["convert"].contains("source_job")) {
        spec.source_job = JobId{document["convert"]["source_job"]};
    }
    if (trains(document) && document["export"].is_object()) {
        const Json& how = document["export"];
        Json convert{{"to", how["format"]}, {"dtype", how["dtype"]}, {"of", how["of"]}};
        if (exports_adapter(document)) convert["to"] = "peft";
        if (how.value("merge", Json()) == true) convert["merge"] = true;
        if (how.value("weights", Json()) == "ema") convert["state"] = "ema";
        spec.export_document = Json{{"convert", convert}}.dump();
    }
    spec.document = document.dump();
    spec.needs = needs_of(spec, document);
    return spec;
}

// Returns a problem if convert.of is "best" and the source is a directory, because a directory has
// no recorded losses.
std::vector<Problem> check_best(const Json& document) {
    const Json convert = document.value("convert", Json::object());
    if (convert.value("of", "last") != "best" || !convert.contains("source")) return {};
    return {{"convert.of",
             "is `best`, but a directory has no best checkpoint; set convert.of to `last`, or use "
             "source_job instead of source"}};
}

std::vector<Problem> check_cron(const JobSpec& spec) {
    if (spec.cron.empty()) return {};
    const bool alone = !spec.array && spec.then.empty() && spec.after.empty() && !spec.deadline;
    if (alone) return {};
    return {{"cron", "cannot be used with after, array, deadline or then"}};
}

// Parses the jobs of `then`. Replaces their documents in `document` by documents with all defaults.
std::vector<JobSpec> read_chain(Json& document, const std::string& base,
                                std::vector<Problem>& problems) {
    std::vector<JobSpec> jobs;
    if (!document.contains("then") || !document["then"].is_array()) return jobs;
    for (std::size_t i = 0; i < document["then"].size(); ++i) {
        ParsedJob job = parse_job(document["then"][i].dump(), base);
        for (Problem& problem : job.problems) {
            const std::string dot = problem.path.empty() ? "" : ".";
            problems.push_back(
                {fmt::format("then[{}]{}{}", i, dot, problem.path), problem.message});
        }
        if (!job.ok()) continue;
        document["then"][i] = Json::parse(job.spec.document.text());
        jobs.push_back(std::move(job.spec));
    }
    return jobs;
}

// Returns a problem for each missing input file. Does not check a resumed job's original inputs,
// because the job reads the model and the tokenizer from its checkpoint, and the tokens from its
// token files. The ranks check the checkpoint and the token files.
std::vector<Problem> missing_inputs(const OrderedJson& schema, const Json& document) {
    std::vector<Problem> problems = missing_files(schema, document);
    if (document.value("kind", Json()) != "resume") return problems;
    std::erase_if(problems, [](const Problem& problem) {
        const std::string& path = problem.path;
        return path == "tokenizer" || path == "model.from" || path.starts_with("data.");
    });
    return problems;
}

}  // namespace

ParsedJob parse_job(std::string_view json_document, const std::string& base_directory) {
    ParsedJob parsed;
    auto json = parse_json(json_document);
    if (!json) {
        parsed.problems.push_back({"", json.error().message});
        return parsed;
    }
    parsed.problems = undeliverable(*json);
    // If the document is too large, skip the other checks, because their messages could quote
    // megabytes of the document.
    if (!parsed.ok()) return parsed;
    if (json->is_object() && json->contains("sweep"))
        return parse_sweep(
            *json, [&](const Json& trial) { return parse_job(trial.dump(), base_directory); });
    const OrderedJson& schema = job_schema();
    parsed.problems = check(schema, *json);
    if (!json->is_object()) return parsed;
    fill_tries(*json);
    fill_no_progress(*json);
    fill_batch(*json);
    fill_slots(*json);
    fill_optimizer(*json);
    fill_defaults(schema, *json);
    fill_derived(*json, base_directory);
    fill_tokenize(*json);
    make_paths_absolute(schema, *json, base_directory);
    append(parsed.problems, missing_inputs(schema, *json));
    fill_tokenizer(*json);
    if (parsed.ok()) append(parsed.problems, check_exit_codes(*json));
    if (parsed.ok()) append(parsed.problems, check_secrets(*json));
    if (parsed.ok()) append(parsed.problems, check_container(*json));
    if (parsed.ok()) append(parsed.problems, check_files(*json));
    if (parsed.ok()) append(parsed.problems, check_resources((*json)["resources"]));
    if (parsed.ok()) append(parsed.problems, check_processes(*json));
    if (parsed.ok()) append(parsed.problems, check_log_names(*json));
    if (trains(*json)) append(parsed.problems, impossible_sizes(*json));
    if (trains(*json) && parsed.ok()) append(parsed.problems, impossible_variants(*json));
    if (parsed.ok()) append(parsed.problems, unreadable(*json));
    std::vector<JobSpec> then = read_chain(*json, base_directory, parsed.problems);
    if (!parsed.ok()) return parsed;
    parsed.spec = read_spec(*json);
    parsed.spec.then = std::move(then);
    append(parsed.problems, check_chain(parsed.spec));
    append(parsed.problems, check_cron(parsed.spec));
    append(parsed.problems, check_best(*json));
    return parsed;
}

}  // namespace roll::spec
