// The page of one job: its attempts, its loss and throughput over the whole run, and the memory of
// its running attempt.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/show/files_of_job.hpp"
#include "cli/show/job_view.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/text/text_width.hpp"
#include "cli/top/rows.hpp"
#include "cli/top/view.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli::top {
namespace {

// from this width on, both curves are drawn side by side
constexpr std::size_t kSideBySide = 120;
constexpr std::size_t kPlotRowsMin = 8;
constexpr std::size_t kPlotRowsMax = 16;

// A curve with the title above it.
struct Titled {
    std::string title;
    std::vector<Point> points;
};

Titled by_step(const std::string& what, const std::vector<Point>& points) {
    if (points.empty()) return {};
    return {fmt::format("{}: {:.4g} at step {:.6g}, {:.4g} at step {:.6g}", what, points.front().y,
                        points.front().x, points.back().y, points.back().x),
            points};
}

// Returns the largest memory of a node in MiB from second `from` to second `to` of its curve. After
// the end of the curve, returns the last value.
double memory_between(const Json& node, double from, double to) {
    const Json& values = node.at("mebibytes");
    const double every = node.at("every_s").get<double>();
    const auto first = static_cast<std::size_t>(from / every);
    double most = values.empty() ? 0 : values.back().get<double>();
    if (first < values.size()) most = 0;
    for (std::size_t i = first; i < values.size() && static_cast<double>(i) * every < to; ++i)
        most = std::max(most, values[i].get<double>());
    return most;
}

// Returns the curve of the job's memory, which is the sum over its nodes. The curves of nodes may
// have different intervals between samples. The result has the longest of these intervals.
Titled memory_curve(const Json& job) {
    constexpr double kMebibytesAGibibyte = 1024;
    double every = 0, end = 0, now = 0, most = 0;
    const Json nodes = job.value("memory", Json::array());
    for (const Json& node : nodes) {
        const double one = node.at("every_s").get<double>();
        every = std::max(every, one);
        end = std::max(end, one * static_cast<double>(node.at("mebibytes").size()));
        now += node.at("bytes").get<double>();
    }
    std::vector<Point> points;
    for (double at = 0; at < end; at += every) {
        double sum = 0;
        for (const Json& node : nodes) sum += memory_between(node, at, at + every);
        points.push_back({at, sum});
        most = std::max(most, sum);
    }
    const bool large = most >= kMebibytesAGibibyte;
    for (Point& point : points) point.y /= large ? kMebibytesAGibibyte : 1;
    return {fmt::format("memory in {} during {}: {} now, {} maximum", large ? "GiB" : "MiB",
                        duration_text(end), spec::size_text(static_cast<std::int64_t>(now)),
                        spec::size_text(static_cast<std::int64_t>(most) << 20)),
            points};
}

// If the job runs on several nodes, returns a title and one line with a memory curve for each node.
// All curves have the same scale.
std::vector<std::string> nodes_memory(const Json& job, bool utf8) {
    const Json nodes = job.value("memory", Json::array());
    if (nodes.size() < 2) return {};
    double most = 0;
    std::size_t longest = 0;
    for (const Json& node : nodes) {
        for (const Json& value : node.at("mebibytes")) most = std::max(most, value.get<double>());
        longest = std::max(longest, columns_of(field_text(node, "node")));
    }
    std::vector<std::string> lines = {"memory of each node"};
    for (const Json& node : nodes) {
        const auto values = node.at("mebibytes").get<std::vector<double>>();
        lines.push_back(fmt::format("  {}  {:>8}  {}", pad_text(field_text(node, "node"), longest),
                                    spec::size_text(node.at("bytes").get<std::int64_t>()),
                                    sparkline(values, values.size(), utf8, std::pair(0., most))));
    }
    return lines;
}

// Returns the lines of a curve, with its title first.
std::vector<std::string> curve_lines(const Titled& curve, std::size_t width, std::size_t rows) {
    std::vector<std::string> lines = {curve.title};
    for (std::string& line : lines_of(plot(curve.points, width, rows)))
        lines.push_back(std::move(line));
    return lines;
}

std::vector<std::string> curves(const OpenJob& open, const Canvas& canvas) {
    const bool beside = canvas.width >= kSideBySide;
    const std::size_t rows = std::clamp(canvas.height / 3, kPlotRowsMin, kPlotRowsMax);
    const std::size_t width = beside ? canvas.width / 2 - 1 : canvas.width;
    std::vector<std::vector<std::string>> drawn;
    for (const Titled& curve :
         {by_step("loss", open.loss), by_step("tokens/s", open.speed), memory_curve(open.job)})
        if (!curve.points.empty()) drawn.push_back(curve_lines(curve, width, rows));
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < drawn.size(); i += beside ? 2 : 1) {
        std::vector<std::string>& left = drawn[i];
        if (beside && i + 1 < drawn.size()) {
            const std::vector<std::string>& right = drawn[i + 1];
            left.resize(std::max(left.size(), right.size()));
            for (std::size_t row = 0; row < right.size(); ++row)
                left[row] = pad_text(fit_text(left[row], width), width + 2) + right[row];
        }
        lines.insert(lines.end(), left.begin(), left.end());
    }
    for (std::string& line : nodes_memory(open.job, canvas.utf8)) lines.push_back(std::move(line));
    return lines;
}

std::string resources_text(const Json& job) {
    const Json resources = job.value("resources", Json::object());
    std::string text = fmt::format("{} node{} with {} slot{}", field_text(resources, "nodes"),
                                   field_text(resources, "nodes") == "1" ? "" : "s",
                                   field_text(resources, "slots_per_node"),
                                   field_text(resources, "slots_per_node") == "1" ? "" : "s");
    const std::string gpus = field_text(resources, "gpus_per_node");
    if (gpus != "0" && !gpus.empty())
        text += fmt::format(" and {} GPU{}", gpus, gpus == "1" ? "" : "s");
    const double limit = resources.value("time_seconds", 0.0);
    return limit > 0 ? text + ", for at most " + duration_text(limit) : text;
}

}  // namespace

int ranks_of(const Json& job) {
    if (!job.is_object()) return 0;
    const auto ranks = log_ranks(job, "all");
    return ranks && !ranks->empty() ? ranks->back() + 1 : 0;
}

std::vector<Line> job_lines(const Data& data, const Ui& ui, const Canvas& canvas) {
    Json job = data.open.job;
    const bool known = job.is_object() && job.value("id", std::uint64_t{0}) == ui.job.value_or(0);
    if (!known) return {{{"reading the job ...", Style::Dim}}};
    if (Json layout = layout_of(job); !layout.is_null()) {
        add_chosen_schedule(layout, data.open.head);
        job["layout"] = std::move(layout);
    }
    std::vector<Line> lines;
    const Look look{canvas.now, false, canvas.local, canvas.width};
    const auto put = [&](const std::string& text) { lines.push_back({{harmless(text)}}); };
    put(job_line(job, 0, false));
    put("  resources       " + resources_text(job));
    const auto details = lines_of(job_text(job, look));
    const auto table_at = std::ranges::find(details, "");
    for (auto line = details.begin() + 1; line < table_at; ++line) put(*line);
    const std::string title = "  time of a step  ";
    const std::string shares =
        phase_shares(data.open.phases, canvas.width - std::min(canvas.width, title.size()));
    if (!shares.empty()) put(title + shares);
    const std::vector<std::string> plots = curves(data.open, canvas);
    if (!plots.empty()) put("");
    for (const std::string& line : plots) put(line);
    for (auto line = table_at; line < details.end(); ++line) put(*line);
    return lines;
}

}  // namespace roll::cli::top
