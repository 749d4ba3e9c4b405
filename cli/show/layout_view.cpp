#include "cli/show/layout_view.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "cli/text/render.hpp"
#include "common/spec/job/resources.hpp"

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
    for (const char* key : {"tp", "pp", "vpp"}) layout[key] = parallel.value(key, 1);
    for (const char* key : {"zero", "group"}) layout[key] = parallel.value(key, 0);
    layout["sequence"] = parallel.value("sequence", false);
    layout["recompute"] = parallel.value("recompute", "none");
    layout["schedule"] = parallel.value("schedule", "auto");
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
    for (const char* key : {"dp", "tp", "pp", "vpp", "zero"}) {
        const int least = key == std::string_view("zero") ? 0 : 1;
        if (const int value = layout[key].get<int>(); value > least)
            text += fmt::format("{} {}, ", key, value);
    }
    if (layout["sequence"].get<bool>()) text += "sequence, ";
    if (const auto again = layout["recompute"].get<std::string>(); again != "none")
        text += fmt::format("recompute {}, ", again);
    if (layout["pp"].get<int>() > 1) {
        const auto schedule = layout["schedule"].get<std::string>();
        text += schedule == "auto" ? "schedule auto, " : schedule + ", ";
        if (const int group = layout["group"].get<int>(); group > 0)
            text += fmt::format("group {}, ", group);
    }
    return text +
           fmt::format("micro_batch_size {}", layout["micro_batch_size"].get<std::int64_t>());
}

}  // namespace roll::cli
