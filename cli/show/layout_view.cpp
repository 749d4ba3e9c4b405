#include "cli/show/layout_view.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "cli/text/render.hpp"
#include "common/counted.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli {

Json layout_of(const Json& job) {
    const Json spec = job.value("spec", Json());
    if (!spec.is_object()) return nullptr;
    const Json micro = spec.value("train", Json::object()).value("micro_batch_size", Json());
    if (!micro.is_number()) return nullptr;
    const Json parallel = spec.value("parallel", Json::object());
    const Json resources = job.value("resources", Json::object());
    Json layout{{"micro_batch_size", micro}};
    int ranks_of_replica = 1;
    for (const char* key : {"tp", "pp", "cp"}) ranks_of_replica *= parallel.value(key, 1);
    const int ranks = resources.value("nodes", 1) * spec::ranks_on_node(resources);
    layout["dp"] = parallel.value("dp", std::max(1, ranks / ranks_of_replica));
    for (const char* key : {"tp", "cp", "pp", "vpp"}) layout[key] = parallel.value(key, 1);
    for (const char* key : {"zero", "group"}) layout[key] = parallel.value(key, 0);
    layout["sequence"] = parallel.value("sequence", false);
    layout["recompute"] = parallel.value("recompute", "none");
    layout["schedule"] = parallel.value("schedule_file", std::string()).empty()
                             ? parallel.value("schedule", "auto")
                             : "file";
    // The trainer chooses the schedule when it starts, and reports its choice.
    const Json progress = progress_of(job);
    if (layout["schedule"] == "auto" && progress.is_object() && progress.contains("schedule"))
        layout["schedule"] = field_text(progress, "schedule");
    return layout;
}

void add_chosen_schedule(Json& layout, const Json& head) {
    if (!layout.is_object() || layout["schedule"] != "auto") return;
    if (head.is_object() && head.contains("schedule"))
        layout["schedule"] = field_text(head, "schedule");
}

std::string layout_text(const Json& layout) {
    std::string text;
    for (const char* key : {"dp", "tp", "cp", "pp", "vpp", "zero"}) {
        const int least = key == std::string_view("zero") ? 0 : 1;
        if (const int value = layout[key].get<int>(); value > least)
            text += fmt::format("{} {}, ", key, value);
    }
    if (layout["sequence"].get<bool>()) text += "sequence, ";
    if (const auto again = layout["recompute"].get<std::string>(); again != "none")
        text += fmt::format("recompute {}, ", again);
    if (layout["pp"].get<int>() > 1) {
        const auto schedule = layout["schedule"].get<std::string>();
        if (schedule == "auto" || schedule == "file") text += "schedule ";
        text += schedule + ", ";
        if (const int group = layout.value("group", 0); group > 0)
            text += fmt::format("group {}, ", group);
    }
    return text +
           fmt::format("micro_batch_size {}", layout["micro_batch_size"].get<std::int64_t>());
}

std::vector<std::string> layout_lines(const Json& report) {
    constexpr std::size_t kRules = 3;  // maximum number of rules that are listed
    const auto size_of = [](const Json& one, const char* key) {
        return spec::size_text(one[key].get<std::int64_t>());
    };
    std::string keys;
    for (const Json& key : report["searched"])
        keys += (keys.empty() ? "" : ", ") + key.get<std::string>();
    std::vector<std::string> lines;
    lines.push_back(fmt::format(
        "layout: chose {} for {} from {} ({} simulated); memory limit of a rank: {} "
        "({})",
        keys, counted(report["ranks"].get<int>(), "rank"),
        counted(report["legal"].get<int>(), "layout"), report["simulated"].get<int>(),
        size_of(report, "memory_limit"), report["memory_limit_from"].get<std::string>()));
    lines.emplace_back("      time   bubble      memory        sent  layout");
    std::size_t place = 0;
    for (const Json& one : report["best"])
        lines.push_back(fmt::format("  {}  {:.3f}  {:>5.1f} %  {:>10}  {:>10}  {}", ++place,
                                    one["relative_time"].get<double>(),
                                    100 * one["bubble"].get<double>(), size_of(one, "memory_bytes"),
                                    size_of(one, "sent_bytes"), layout_text(one)));
    for (const Json& one : report["refused"])
        lines.push_back("  refused  " + one["why"].get<std::string>());
    for (std::size_t i = 0; i < std::min(report["rules"].size(), kRules); ++i)
        lines.push_back("  refused  " + report["rules"][i].get<std::string>());
    lines.emplace_back(
        "  row 1 is used; time is relative to row 1; memory and sent (bytes per step) are the "
        "largest values of any rank; all rows fit into the memory limit");
    return lines;
}

}  // namespace roll::cli
