#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "common/spec/check/problems.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/job/node_sizes.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

constexpr std::uint64_t kMemoryLeast = 1u << 20;

// Checks values of `resources` that must be converted: fractions of a GPU, and texts such as
// "4GiB".
void check_texts(const Json& resources, const std::string& path, std::vector<Problem>& problems) {
    const double gpus = resources["gpus_per_node"];
    const double hundredths = gpus * 100;
    const bool whole = gpus == std::floor(gpus);
    if (!whole && (gpus > 1 || std::abs(hundredths - std::round(hundredths)) > 1e-6)) {
        problems.push_back({path + ".gpus_per_node",
                            fmt::format("is {}; allowed: a whole number, or hundredths of one GPU "
                                        "(0.01 to 0.99)",
                                        gpus)});
    }
    if (resources.contains("memory") &&
        parse_size(resources["memory"].get<std::string>()).value() < kMemoryLeast)
        problems.push_back({path + ".memory", fmt::format("is {}; allowed: at least 1MiB",
                                                          dump(resources["memory"]))});
}

std::vector<Problem> check_one(const Json& resources, const std::string& path) {
    std::vector<Problem> problems;
    check_texts(resources, path, problems);
    append(problems, resource_problems(read_resources(resources), path));
    return problems;
}

void check_limits(const Resources& wanted, const std::string& path,
                  std::vector<Problem>& problems) {
    constexpr std::int64_t kNodesMax = 100'000, kSparesMax = 1000;
    const auto check = [&](const char* key, std::int64_t value, std::int64_t least,
                           std::int64_t most) {
        check_range(path, key, value, least, most, problems);
    };
    check("nodes", wanted.nodes, 1, kNodesMax);
    check("slots_per_node", wanted.slots_per_node, 0, kSlotsMax);
    check("gpus_per_node", wanted.gpus_per_node, 0, kGpusMax);
    check("time", wanted.time.count(), 0, kSecondsMax);
    check("spares", wanted.spares, 0, kSparesMax);
    check("segment", wanted.segment, 0, kNodesMax);
    check("tasks_per_node", wanted.tasks_per_node, 0, kSlotsMax);
    check("memory", wanted.memory, 0, kMemoryMax);
    check("cpus", wanted.cpus, 0, kSlotsMax);
    check("slots_per_rank", wanted.slots_per_rank, 1, kSlotsMax);
}

}  // namespace

std::vector<Problem> resource_problems(const Resources& wanted, const std::string& path) {
    std::vector<Problem> problems;
    check_limits(wanted, path, problems);
    if (!problems.empty()) return problems;
    const auto refuse = [&](const char* key, std::string message) {
        problems.push_back({path + "." + key, std::move(message)});
    };
    const bool part = wanted.gpu_percent >= 1 && wanted.gpu_percent < 100;
    if (!(part ? wanted.gpus_per_node == 1 : wanted.gpu_percent == 100))
        refuse("gpu_percent",
               fmt::format("is {} with gpus_per_node {}; allowed: 1 to 99 with one GPU, else 100",
                           wanted.gpu_percent, wanted.gpus_per_node));
    if (wanted.segment > 1 && wanted.nodes % wanted.segment != 0)
        refuse("segment",
               fmt::format("is {}; allowed: a divisor of nodes {}", wanted.segment, wanted.nodes));
    const int slots = wanted.slots_per_node, each = wanted.slots_per_rank;
    const std::int64_t gpus = std::int64_t{wanted.gpus_per_node} * wanted.gpu_percent;
    if (each > 1 && gpus > 0)
        refuse("slots_per_rank", fmt::format("is {} with gpus_per_node {}; allowed only without "
                                             "GPUs, because each GPU has one rank",
                                             each, gpus_text(gpus)));
    else if (gpus == 0 && slots % each != 0)
        refuse("slots_per_rank",
               fmt::format("is {}; allowed: a divisor of slots_per_node {}", each, slots));
    if (gpus == 0 && wanted.tasks_per_node > slots)
        refuse("tasks_per_node", fmt::format("is {}; allowed without GPUs: at most "
                                             "slots_per_node {}",
                                             wanted.tasks_per_node, slots));
    if (problems.empty() && wanted.ranks_per_node() < 1)
        refuse("slots_per_node", "is 0; a job needs at least one slot or GPU on each node");
    return problems;
}

std::vector<Problem> check_resources(const Json& document) {
    const Json& resources = document["resources"];
    std::vector<Problem> problems = check_one(resources, "resources");
    const int variants = static_cast<int>(resources.value("variants", Json::array()).size());
    for (int i = 1; i <= variants; ++i) {
        const std::string path = fmt::format("resources.variants[{}]", i - 1);
        append(problems, check_one(with_variant(document, i)["resources"], path));
    }
    return problems;
}

}  // namespace roll::spec
