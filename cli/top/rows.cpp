#include "cli/top/rows.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "cli/show/job_view.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli::top {
namespace {

constexpr std::size_t kSpark = 12;  // width of the curve in a row, in columns

// Returns the text by which jobs are sorted. Jobs with equal texts are sorted by id.
std::string sort_key(const Json& job, Sort sort) {
    if (sort == Sort::Id) return "";
    if (sort == Sort::Name) return field_text(job, "name");
    if (sort == Sort::User) return field_text(job, "user");
    if (sort == Sort::Time) {
        const std::string started = field_text(job, "started_at");
        return started.empty() ? field_text(job, "submitted_at") : started;
    }
    // Running jobs come first, then queued jobs, then jobs that have ended.
    const std::string state = field_text(job, "state");
    return (state == "running" ? "0" : state == "queued" ? "1" : "2") + state;
}

// Returns the newest memory sample as text, followed by a curve of all samples. The scale of the
// curve begins at 0.
std::string memory_text(const std::vector<double>& samples, bool utf8) {
    if (samples.empty()) return "";
    const double most = *std::ranges::max_element(samples);
    return fmt::format("{:>8} ", spec::size_text(static_cast<std::int64_t>(samples.back()))) +
           sparkline(samples, kSpark, utf8, std::pair(0., most));
}

Row job_row(const Json& job, const Data& data, const Canvas& canvas) {
    const auto id = job.value("id", std::uint64_t{0});
    const auto found = data.curves.find(id);
    static const Curve kNone{};
    const Curve& curve = found == data.curves.end() ? kNone : found->second;
    const auto spark = [&](const std::vector<double>& values) {
        return sparkline(values, kSpark, canvas.utf8);
    };
    const std::string state = field_text(job, "state");
    return {std::to_string(job.contains("fold") ? row_key(job) : id),
            state,
            {id_text(job), field_text(job, "name"), field_text(job, "user"), state,
             time_text(job, canvas.now), spark(curve.loss), spark(curve.tokens_per_second),
             sparkline(curve.gpu_percent, kSpark, canvas.utf8, std::pair(0., 100.)),
             memory_text(curve.memory, canvas.utf8), field_text(job, "nodes"), info_text(job)},
            job};
}

List jobs_list(const Data& data, const Ui& ui, const Canvas& canvas) {
    List list{{{.title = "ID", .right = true, .shrinks = 5, .least = 10},
               {.title = "NAME", .shrinks = 4, .least = 10},
               {.title = "USER", .shrinks = 2, .least = 6, .drops = 6},
               {.title = "STATE"},
               {.title = "TIME", .right = true, .drops = 7},
               {.title = "LOSS", .drops = 3},
               {.title = "TOKENS/S", .drops = 4},
               {.title = "GPU", .drops = 2},
               {.title = "MEMORY", .drops = 1},
               {.title = "NODES", .shrinks = 3, .least = 8, .drops = 5},
               {.title = "INFO", .shrinks = 1, .least = 24}},
              {}};
    std::vector<std::pair<std::string, const Json*>> order;
    for (const Json& job : data.jobs) order.emplace_back(sort_key(job, ui.sort), &job);
    const auto number = [](const Json* job) { return job->value("id", std::uint64_t{0}); };
    std::ranges::sort(order, [&](const auto& a, const auto& b) {
        const auto key = [&](const auto& one) { return std::pair(one.first, number(one.second)); };
        return ui.reversed ? key(b) < key(a) : key(a) < key(b);
    });
    for (const auto& [key, job] : order) list.rows.push_back(job_row(*job, data, canvas));
    return list;
}

List nodes_list(const Data& data) {
    List list{{{.title = "NODE", .shrinks = 2, .least = 12},
               {.title = "SLOTS FREE", .right = true},
               {.title = "GPUS FREE", .right = true},
               {.title = "STATE", .shrinks = 3, .least = 10},
               {.title = "SEGMENT", .drops = 1},
               {.title = "WALL", .drops = 2},
               {.title = "HEARD", .right = true, .drops = 3},
               {.title = "JOBS", .shrinks = 1, .least = 8}},
              {}};
    for (const Json& node : data.nodes) {
        const auto share = [&](const char* all, const char* free) {
            const std::string total = field_text(node, all);
            return total == "0" ? "" : field_text(node, free) + "/" + total;
        };
        const std::string name = field_text(node, "node");
        list.rows.push_back({name,
                             "",
                             {name, share("slots", "slots_free"), share("gpus", "gpus_free"),
                              node_state(node), field_text(node, "segment"),
                              field_text(node, "wall"), node_heard(node), field_text(node, "jobs")},
                             node});
    }
    return list;
}

// Lists the allocations, and the queues that have no allocations.
List allocations_list(const Data& data, const Canvas& canvas) {
    List list{{{.title = "QUEUE", .shrinks = 2, .least = 8},
               {.title = "ALLOCATION", .right = true},
               {.title = "STATE"},
               {.title = "SLURM JOB", .right = true, .drops = 3},
               {.title = "SLURM SAYS", .drops = 2},
               {.title = "WORKERS", .right = true, .drops = 4},
               {.title = "ENDS", .drops = 1},
               {.title = "REASON", .shrinks = 1, .least = 20}},
              {}};
    const Json allocations = data.allocations.value("allocations", Json::array());
    for (const Json& one : allocations) {
        list.rows.push_back(
            {field_text(one, "id"),
             "",
             {field_text(one, "queue"), field_text(one, "id"), field_text(one, "state"),
              field_text(one, "slurm_job"), field_text(one, "slurm_state"),
              field_text(one, "workers"), time_field_text(one, "ends_at", canvas.local),
              field_text(one, "reason")},
             one});
    }
    const Json queues = data.allocations.value("queues", Json::array());
    for (const Json& queue : queues) {
        const std::string name = field_text(queue, "name");
        if (std::ranges::any_of(allocations,
                                [&](const Json& one) { return field_text(one, "queue") == name; }))
            continue;
        list.rows.push_back(
            {"queue " + name,
             "",
             {name, "", field_text(queue, "state"), "", "", "", "", field_text(queue, "reason")},
             queue});
    }
    return list;
}

bool matches(const Row& row, const std::string& filter) {
    const auto lower = [](std::string text) {
        for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return text;
    };
    return std::ranges::any_of(row.cells, [&](const std::string& cell) {
        return lower(cell).find(lower(filter)) != std::string::npos;
    });
}

}  // namespace

std::uint64_t row_key(const Json& job) {
    const Json array = job.value("array", Json());
    return array.is_object() ? array.value("job", std::uint64_t{0})
                             : job.value("id", std::uint64_t{0});
}

List list_of(const Data& data, const Ui& ui, const Canvas& canvas) {
    List list = ui.page == Page::Jobs    ? jobs_list(data, ui, canvas)
                : ui.page == Page::Nodes ? nodes_list(data)
                                         : allocations_list(data, canvas);
    if (!ui.filter.empty())
        std::erase_if(list.rows, [&](const Row& row) { return !matches(row, ui.filter); });
    return list;
}

std::size_t selected_index(const List& list, const Ui& ui) {
    const std::string& key = ui.selected.at(static_cast<std::size_t>(ui.page));
    const auto found = std::ranges::find(list.rows, key, &Row::key);
    return found == list.rows.end() ? 0 : static_cast<std::size_t>(found - list.rows.begin());
}

std::string sparkline(const std::vector<double>& values, std::size_t width, bool utf8,
                      std::optional<std::pair<double, double>> bounds) {
    constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    constexpr std::array kAscii = {"_", ".", "-", "~", "=", "+", "*", "#"};
    const auto& heights = utf8 ? kBlocks : kAscii;
    const std::size_t count = std::min(width, values.size());
    const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
    if (count == 0) return "";
    const auto [least, most] = std::minmax_element(first, values.end());
    const auto [low, high] = bounds.value_or(std::pair(*least, *most));
    const double range = high > low ? high - low : 1;
    std::string text;
    for (auto value = first; value != values.end(); ++value)
        text += heights[static_cast<std::size_t>((std::clamp(*value, low, high) - low) / range *
                                                 7.999)];
    return text;
}

}  // namespace roll::cli::top
