#include "common/spec/check/read_job.hpp"

#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/spec/check/defaults.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/job/features.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

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
    const Json& data = member(document, "data");
    const Json& train = member(document, "train");
    const Json& lora = member(train, "lora");
    const auto differs = [](const Json& value, const char* usual) {
        return !value.is_null() && value != usual;
    };
    if (member(member(document, "checkpoint"), "format") == "torch_dist")
        needs.emplace_back(kTorchDist);
    if (differs(member(data, "truncate"), "end") || member(data, "packing") == "wrapped")
        needs.emplace_back(kLongRows);
    if (member(data, "texts") == true) needs.emplace_back(kTexts);
    if (!member(lora, "layers").is_null() || !member(lora, "exclude").is_null())
        needs.emplace_back(kLoraLayers);
    if (!member(lora, "from").is_null()) needs.emplace_back(kLoraFrom);
    if (differs(member(train, "on_spike"), "ignore")) needs.emplace_back(kSpikes);
    if (differs(member(member(train, "optimizer"), "offload"), "none"))
        needs.emplace_back(kOffload);
    const Json& share = member(member(train, "optimizer"), "offload_fraction");
    if (share.is_number() && share != 1) needs.emplace_back(kOffloadFraction);
    if (differs(member(train, "activation_offload"), "none"))
        needs.emplace_back(kActivationOffload);
    const Json& exports = member(member(document, "export"), "every");
    if (exports.is_number_integer() && exports > 0) needs.emplace_back(kExports);
    const Json& parallel = member(document, "parallel");
    if (differs(member(parallel, "pipeline_layout"), "") ||
        differs(member(parallel, "stages"), "even") || !member(parallel, "schedule_file").is_null())
        needs.emplace_back(kStages);
    const auto is_above = [&](const char* key, int usual) {
        const Json& value = member(parallel, key);
        return value.is_number_integer() && value > usual;
    };
    if (is_above("cp", 1)) needs.emplace_back(kContext);
    const Json& model = member(document, "model");
    if (!member(model, "num_experts").is_null() || !member(model, "num_local_experts").is_null())
        needs.emplace_back(kExperts);
    if (spec.resources.gpus_per_node > 0 &&
        (is_above("tp", 1) || is_above("pp", 1) || is_above("zero", 0) || lora.is_object()))
        needs.emplace_back(kGpuLayouts);
    const Json& optimizer = member(member(train, "optimizer"), "kind");
    if (spec.resources.gpus_per_node > 0 &&
        (differs(member(lora, "base"), "full") || optimizer == "adamw_8bit" ||
         optimizer == "adamw_bf16"))
        needs.emplace_back(kGpuPacked);
    return needs;
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

}  // namespace

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

}  // namespace roll::spec
