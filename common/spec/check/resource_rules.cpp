#include "common/spec/check/resource_rules.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "common/spec/job/resources.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

constexpr std::uint64_t kMemoryLeast = 1u << 20;

std::vector<Problem> check_one(const Json& resources, const std::string& path) {
    std::vector<Problem> problems;
    const double gpus = resources["gpus_per_node"];
    const double hundredths = gpus * 100;
    const bool whole = gpus == std::floor(gpus);
    if (!whole && (gpus > 1 || std::abs(hundredths - std::round(hundredths)) > 1e-6)) {
        problems.push_back({path + ".gpus_per_node",
                            fmt::format("is {}; allowed: a whole number, or hundredths of one GPU "
                                        "(0.01 to 0.99)",
                                        gpus)});
    }
    const int nodes = resources["nodes"], segment = resources.value("segment", 0);
    if (segment > 1 && nodes % segment != 0) {
        problems.push_back({path + ".segment",
                            fmt::format("is {}; allowed: a divisor of nodes {}", segment, nodes)});
    }
    const int tasks = resources.value("tasks_per_node", 0), slots = resources["slots_per_node"];
    const int each = resources.value("slots_per_rank", 1);
    if (each > 1 && gpus > 0)
        problems.push_back({path + ".slots_per_rank",
                            fmt::format("is {} with gpus_per_node {}; allowed only without GPUs, "
                                        "because each GPU has one rank",
                                        each, resources["gpus_per_node"].dump())});
    else if (slots % each != 0)
        problems.push_back(
            {path + ".slots_per_rank",
             fmt::format("is {}; allowed: a divisor of slots_per_node {}", each, slots)});
    if (resources.contains("memory") &&
        parse_size(resources["memory"].get<std::string>()).value() < kMemoryLeast)
        problems.push_back({path + ".memory", fmt::format("is {}; allowed: at least 1MiB",
                                                          dump(resources["memory"]))});
    if (gpus == 0 && tasks > slots) {
        problems.push_back(
            {path + ".tasks_per_node",
             fmt::format("is {}; allowed without GPUs: at most slots_per_node {}", tasks, slots)});
    }
    return problems;
}

}  // namespace

std::vector<Problem> check_resources(const Json& document) {
    const Json& resources = document["resources"];
    std::vector<Problem> problems = check_one(resources, "resources");
    const int variants = static_cast<int>(resources.value("variants", Json::array()).size());
    for (int i = 1; i <= variants; ++i) {
        const std::string path = fmt::format("resources.variants[{}]", i - 1);
        for (Problem& problem : check_one(with_variant(document, i)["resources"], path))
            problems.push_back(std::move(problem));
    }
    return problems;
}

}  // namespace roll::spec
