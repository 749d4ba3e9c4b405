#include "common/spec/check/defaults.hpp"

#include <fmt/format.h>

#include "common/spec/check/member.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/train/pipeline_layout.hpp"

namespace roll::spec {
namespace {

bool reads_text(const Json& document) {
    return trains(document) || member(document, "kind") == "tokenize";
}

// Sets the resources of a tokenize job to one program without a GPU. The job file may request more,
// because it may be a copy of a train job's file.
void fill_tokenize(Json& document) {
    Json& resources = document["resources"];
    if (member(document, "kind") != "tokenize" || !resources.is_object()) return;
    resources["nodes"] = 1;
    resources["gpus_per_node"] = 0;
}

// Sets retry.app, the number of retries after failures of the program itself, to 0 for a command
// job. A value in the job file has precedence.
void fill_tries(Json& document) {
    if (member(document, "kind") != "command") return;
    if (!document.contains("retry")) document["retry"] = Json::object();
    if (document["retry"].is_object()) document["retry"].emplace("app", 0);
}

// For a gang (a command with tasks_per_node) without GPUs, sets slots_per_node to the number of the
// gang's processes on each node. A value in the job file has precedence.
void fill_slots(Json& document) {
    const Json& resources = member(document, "resources");
    if (!resources.is_object() || resources.contains("slots_per_node")) return;
    const Json tasks = member(resources, "tasks_per_node");
    const bool on_gpus = resources.contains("gpus_per_node") && resources["gpus_per_node"] != 0;
    if (tasks.is_number_integer() && !on_gpus) document["resources"]["slots_per_node"] = tasks;
}

// Sets the default beta2 of Lion, which differs from the default beta2 of the other kinds.
void fill_optimizer(Json& document) {
    constexpr double kLionBeta2 = 0.99;
    const Json& optimizer = member(member(document, "train"), "optimizer");
    if (member(optimizer, "kind") == "lion" && !optimizer.contains("beta2"))
        document["train"]["optimizer"]["beta2"] = kLionBeta2;
}

// If the job saves a checkpoint only at its end, sets retry.no_progress to 0, which means no limit.
// A failed attempt of such a job never leaves a checkpoint. A value in the job file has precedence.
void fill_no_progress(Json& document) {
    if (!trains(document)) return;
    const Json checkpoint = document.value("checkpoint", Json::object());
    const Json retry = document.value("retry", Json::object());
    if (!checkpoint.is_object() || !retry.is_object()) return;
    if (checkpoint.value("every", Json(0)) == 0 && !retry.contains("no_progress"))
        document["retry"]["no_progress"] = 0;
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

// Sets vpp from the number of parts of pipeline_layout, as Megatron does. A value in the job file
// has precedence.
void fill_vpp(Json& document) {
    const Json parallel = document.value("parallel", Json());
    if (!parallel.is_object() || parallel.contains("vpp")) return;
    const Json layout = parallel.value("pipeline_layout", Json()),
               pp = parallel.value("pp", Json());
    if (!layout.is_string() || !pp.is_number_integer() || pp < 1) return;
    const auto parts = layout_parts(layout.get<std::string>());
    if (!parts || std::ssize(*parts) % pp.get<std::int64_t>() != 0) return;
    document["parallel"]["vpp"] = std::ssize(*parts) / pp.get<std::int64_t>();
}

// Fills defaults that depend on other keys. The schema cannot express such defaults.
void fill_derived(Json& document, const std::string& base) {
    if (!document.contains("output") && member(document, "name").is_string()) {
        document["output"] =
            fmt::format("{}/runs/{}-{{id}}", base, document["name"].get<std::string>());
    }
    Json* const how = document.contains("export") ? &document["export"] : nullptr;
    if (!trains(document) || how == nullptr || !how->is_object()) return;
    // export.of defaults to "best" if the job keeps its best checkpoint.
    if (!how->contains("of"))
        (*how)["of"] = key_at(document, "/checkpoint/keep_best") == true ? "best" : "last";
    if (!how->contains("dtype")) (*how)["dtype"] = exports_adapter(document) ? "fp32" : "bf16";
}

}  // namespace

bool trains(const Json& document) {
    const Json& kind = member(document, "kind");
    return kind == "train" || kind == "resume";
}

bool exports_adapter(const Json& document) {
    return document.contains(Json::json_pointer("/train/lora")) &&
           document["export"].value("merge", Json()) != true;
}

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

void fill_job(Json& document, const std::string& base) {
    const OrderedJson& schema = job_schema();
    fill_tries(document);
    fill_no_progress(document);
    fill_batch(document);
    fill_slots(document);
    fill_optimizer(document);
    fill_vpp(document);
    fill_defaults(schema, document);
    fill_derived(document, base);
    fill_tokenize(document);
    make_paths_absolute(schema, document, base);
}

}  // namespace roll::spec
