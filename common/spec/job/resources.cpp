#include "common/spec/job/resources.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

constexpr int kWhole = 100;

std::int64_t memory_of(const Json& resources) {
    if (!resources.contains("memory")) return 0;
    return static_cast<std::int64_t>(parse_size(resources["memory"].get<std::string>()).value());
}

Json merged(const Json& resources, const Json& variant) {
    Json all = resources;
    all.erase("variants");
    all.update(variant);
    return all;
}

}  // namespace

int ranks_on_node(int gpus, int slots, int slots_per_rank) {
    return gpus > 0 ? gpus : slots / slots_per_rank;
}

int ranks_on_node(const Json& resources) {
    const int gpus = static_cast<int>(std::ceil(resources.value("gpus_per_node", 0.0)));
    return ranks_on_node(gpus, resources.value("slots_per_node", 1),
                         std::max(resources.value("slots_per_rank", 1), 1));
}

Resources read_resources(const Json& json) {
    Resources resources;
    resources.nodes = json["nodes"];
    resources.slots_per_node = json["slots_per_node"];
    const double gpus = json["gpus_per_node"];
    resources.gpus_per_node = static_cast<int>(std::ceil(gpus));
    if (gpus > 0 && gpus < 1) resources.gpu_percent = static_cast<int>(std::lround(gpus * kWhole));
    resources.segment = json.value("segment", 0);
    resources.spares = json.value("spares", 0);
    resources.tasks_per_node = json.value("tasks_per_node", 0);
    resources.memory = memory_of(json);
    resources.cpus = json.value("cpus", 0);
    resources.slots_per_rank = json.value("slots_per_rank", 1);
    if (json.contains("time"))
        resources.time = parse_duration(json["time"].get<std::string>()).value();
    return resources;
}

std::vector<Resources> read_variants(const Json& resources) {
    std::vector<Resources> variants;
    for (const Json& variant : resources.value("variants", Json::array()))
        variants.push_back(read_resources(merged(resources, variant)));
    return variants;
}

Json with_variant(Json document, int index) {
    Json& resources = document["resources"];
    const Json variants = resources.value("variants", Json::array());
    const bool known = index > 0 && index <= static_cast<int>(variants.size());
    resources = merged(
        resources, known ? variants[static_cast<std::size_t>(index - 1)] : Json(Json::object()));
    return document;
}

Json gpus_number(std::int64_t hundredths) {
    if (hundredths % kWhole == 0) return hundredths / kWhole;
    return static_cast<double>(hundredths) / kWhole;
}

std::string gpus_text(std::int64_t hundredths) { return gpus_number(hundredths).dump(); }

JsonText text_of(const Resources& resources) {
    JsonText text;
    text.add("nodes", resources.nodes)
        .add("slots_per_node", resources.slots_per_node)
        .add("gpus_per_node", resources.gpus_per_node)
        .add("time_seconds", resources.time.count());
    if (resources.gpu_percent != kWhole) text.add("gpu_percent", resources.gpu_percent);
    if (resources.segment != 0) text.add("segment", resources.segment);
    if (resources.spares != 0) text.add("spares", resources.spares);
    if (resources.tasks_per_node != 0) text.add("tasks_per_node", resources.tasks_per_node);
    if (resources.memory != 0) text.add("memory", resources.memory);
    if (resources.cpus != 0) text.add("cpus", resources.cpus);
    if (resources.slots_per_rank != 1) text.add("slots_per_rank", resources.slots_per_rank);
    return text;
}

Result<Resources> resources_of(const Json& json) {
    JsonReader reader(json, "job.resources");
    Resources resources;
    resources.nodes = reader.get<int>("nodes");
    resources.slots_per_node = reader.get<int>("slots_per_node");
    resources.gpus_per_node = reader.get<int>("gpus_per_node");
    resources.time = std::chrono::seconds(reader.get<std::int64_t>("time_seconds"));
    resources.gpu_percent = reader.get_or("gpu_percent", kWhole);
    resources.segment = reader.get_or("segment", 0);
    resources.spares = reader.get_or("spares", 0);
    resources.tasks_per_node = reader.get_or("tasks_per_node", 0);
    resources.memory = reader.get_or<std::int64_t>("memory", 0);
    resources.cpus = reader.get_or("cpus", 0);
    resources.slots_per_rank = reader.get_or("slots_per_rank", 1);
    ROLL_TRY_VOID(reader.finish());
    return resources;
}

}  // namespace roll::spec
