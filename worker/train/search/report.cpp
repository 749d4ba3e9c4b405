#include "worker/train/search/report.hpp"

#include <utility>

#include "common/counted.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/job_cost.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// The keys that the search may choose, and their members.
constexpr std::pair<const char*, bool SearchSpace::*> kKeys[] = {
    {"tp", &SearchSpace::tp},
    {"pp", &SearchSpace::pp},
    {"vpp", &SearchSpace::vpp},
    {"sequence", &SearchSpace::sequence},
    {"zero", &SearchSpace::zero},
    {"recompute", &SearchSpace::recompute},
    {"schedule", &SearchSpace::schedule},
    {"micro_batch_size", &SearchSpace::micro_batch_size}};

OrderedJson layout_json(const ScoredLayout& one, int cp, double fastest) {
    const Layout& layout = one.layout;
    const LayoutScore& score = one.score;
    return {{"dp", layout.dp},
            {"tp", layout.tp},
            {"sequence", layout.sequence},
            {"cp", cp},
            {"pp", layout.pp},
            {"vpp", layout.vpp},
            {"zero", layout.zero},
            {"recompute", spec::name_of(layout.recompute)},
            {"schedule", score.schedule},
            {"group", layout.group},
            {"micro_batch_size", layout.micro_batch_size},
            {"microbatches", score.microbatches},
            {"relative_time", score.time / fastest},
            {"bubble", score.bubble},
            {"memory_bytes", score.memory},
            {"sent_bytes", score.sent}};
}

// Returns the settings that the search chose, as keys of a job file.
OrderedJson settings_json(const SearchSpace& space, const Layout& layout) {
    OrderedJson settings = {{"parallel", OrderedJson::object()}, {"train", OrderedJson::object()}};
    OrderedJson& parallel = settings["parallel"];
    if (space.tp) parallel["tp"] = layout.tp;
    if (space.pp) parallel["pp"] = layout.pp;
    if (space.vpp) parallel["vpp"] = layout.vpp;
    if (space.sequence) parallel["sequence"] = layout.sequence;
    if (space.zero) parallel["zero"] = layout.zero;
    if (space.recompute) parallel["recompute"] = spec::name_of(layout.recompute);
    if (space.schedule) parallel["schedule"] = spec::name_of(layout.schedule);
    if (space.schedule && layout.group > 0) parallel["group"] = layout.group;
    if (space.micro_batch_size) settings["train"]["micro_batch_size"] = layout.micro_batch_size;
    return settings;
}

// Returns the changes that would lower the memory of the layout that needs the least memory.
std::string remedies(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const SearchSpace& space, const Layout& smallest) {
    spec::TrainSpec tried = spec;
    set_layout(tried, smallest);
    tried.parallel.memory_limit = 0;
    const plan::MemoryBytes memory = job_cost(tried, model, space.on_gpu).fullest();
    std::string text;
    const auto suggest = [&](const std::string& remedy) {
        text += (text.empty() ? "" : ", ") + remedy;
    };
    const std::int64_t state =
        memory.weights + memory.main_weights + memory.gradients + memory.moments;
    if (state > memory.activations + memory.workspace) suggest("more ranks");
    if (spec.precision != spec::Precision::Bf16) suggest("train.precision bf16");
    suggest("a shorter train.seq_length");
    if (spec.optimizer.offload == 0)
        suggest("train.optimizer.offload state");
    else if (spec.optimizer.offload < 1)
        suggest("train.optimizer.offload_fraction 1");
    if (!spec.offloads_activations) suggest("train.activation_offload saved");
    for (const auto& [key, member] : kKeys)
        if (!(space.*member) && std::string(key) != "sequence" && std::string(key) != "schedule")
            suggest(std::string("leaving out ") + key);
    return text;
}

[[noreturn]] void refuse_all(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                             const SearchSpace& space, const MemoryLimit& limit,
                             const SearchResult& found) {
    const ScoredLayout& least = found.smallest;
    throw RankFailure(
        2, "no layout of " + counted(space.ranks, "rank") + " fits into " +
               plan::bytes_text(limit.bytes) + " a rank (" + limit.from +
               "): the smallest memory that was found is " + plan::bytes_text(least.score.memory) +
               " with " + layout_text(least.layout) + "; this would help: " +
               remedies(spec, model, space, least.layout) + ", or a larger parallel.memory_limit");
}

}  // namespace

OrderedJson chosen_layout_json(const spec::TrainSpec& spec, const SearchSpace& space,
                               const MemoryLimit& limit) {
    const spec::ModelConfig model = setup_model(spec, {}, true).config;
    const SearchResult found = search_layouts(spec, model, space, limit.bytes);
    if (found.best.empty()) refuse_all(spec, model, space, limit, found);
    OrderedJson json = {{"schema", "roll.layout/1"}, {"searched", OrderedJson::array()}};
    for (const auto& [key, member] : kKeys)
        if (space.*member) json["searched"].push_back(key);
    json["ranks"] = space.ranks;
    json["memory_limit"] = limit.bytes;
    json["memory_limit_from"] = limit.from;
    json["legal"] = found.legal;
    json["simulated"] = found.simulated;
    json["chosen"] = settings_json(space, found.best.front().layout);
    json["best"] = json["refused"] = OrderedJson::array();
    const double fastest = found.best.front().score.time;
    for (const ScoredLayout& one : found.best)
        json["best"].push_back(layout_json(one, spec.parallel.cp, fastest));
    for (const ScoredLayout& one : found.refused) {
        json["refused"].push_back(layout_json(one, spec.parallel.cp, fastest));
        json["refused"].back()["why"] =
            layout_text(one.layout) + ": needs " + plan::bytes_text(one.score.memory) + " a rank";
    }
    json["rules"] = found.rules;
    return json;
}

void search_key(SearchSpace& space, const std::string& key) {
    for (const auto& [name, member] : kKeys)
        if (key == name) {
            space.*member = true;
            return;
        }
    std::string known;
    for (const auto& [name, member] : kKeys)
        known += (known.empty() ? "" : ", ") + std::string(name);
    throw RankFailure(2, "--search is " + key + "; allowed: " + known);
}

}  // namespace roll::train
