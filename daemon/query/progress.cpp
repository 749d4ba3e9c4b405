#include "daemon/query/progress.hpp"

#include <algorithm>

#include "common/protocol/progress.hpp"
#include "common/spec/job/node_sizes.hpp"

namespace roll::query {
namespace {

// Largest processor time that a node may report: a thousand processors for a year. The sum over
// 100,000 nodes, the most that a job may have, does not overflow.
constexpr std::int64_t kCpuMsMax = std::int64_t{1000} * 366 * 86'400'000;

// Returns the row of a node's memory; null if the report has no memory or an invalid one.
Json memory_row(const Json& bytes, const Json& curve, const std::string& node) {
    constexpr std::size_t kValuesMax = 256;
    constexpr std::int64_t kMebibyte = 1 << 20;
    const auto valid = [](const Json& value, std::int64_t most) {
        return value.is_number_integer() && value >= 0 && value <= most;
    };
    JsonReader r(curve, "memory_curve");
    const Json& every = r.raw("every_s");
    const Json& values = r.raw("mebibytes");
    if (!r.finish_lenient() || !valid(bytes, spec::kMemoryMax) || !valid(every, INT32_MAX))
        return nullptr;
    if (!values.is_array() || values.size() > kValuesMax || every == 0) return nullptr;
    const auto fits = [&](const Json& value) { return valid(value, spec::kMemoryMax / kMebibyte); };
    if (!std::ranges::all_of(values, fits)) return nullptr;
    return {{"node", node}, {"bytes", bytes}, {"every_s", every}, {"mebibytes", values}};
}

}  // namespace

Progress read_progress(const std::string& text, const std::string& node) {
    Progress progress;
    auto read = protocol::read_progress(text, protocol::kHeardBytesMax);
    if (!read) return progress;
    const auto take = [&](const char* key) {
        Json value = read->value(key, Json());
        read->erase(key);
        return value;
    };
    const Json ranks = take("ranks");
    const Json bytes = take("memory");
    Json memory = memory_row(bytes, take("memory_curve"), node);
    if (!memory.is_null()) progress.memory.push_back(std::move(memory));
    const Json cpu = take("cpu_ms");
    if (cpu.is_number_integer() && cpu >= 0 && cpu <= kCpuMsMax) progress.cpu_ms = cpu;
    progress.told = *std::move(read);
    if (!ranks.is_array()) return progress;
    for (const Json& one : ranks) {
        JsonReader r(one, "rank");
        const auto rank = r.get<std::int64_t>("rank");
        const auto step = r.get<std::int64_t>("step");
        const auto own_ms = r.get<std::int64_t>("own_ms");
        if (r.finish_lenient())
            progress.ranks.push_back(
                {{"rank", rank}, {"node", node}, {"step", step}, {"own_ms", own_ms}});
    }
    return progress;
}

Json with_scores(Json ranks) {
    double fastest = 0;
    for (const Json& rank : ranks) {
        const double own = rank.value("own_ms", 0.0);
        if (own > 0 && (fastest == 0 || own < fastest)) fastest = own;
    }
    for (Json& rank : ranks) {
        const double own = rank.value("own_ms", 0.0);
        rank["score"] = own > 0 ? Json(fastest / own) : Json(nullptr);
    }
    return ranks;
}

}  // namespace roll::query
