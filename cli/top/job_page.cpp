// The page of one job: its attempts, and its loss and throughput over the whole run.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/files_of_job.hpp"
#include "cli/job_view.hpp"
#include "cli/text_width.hpp"
#include "cli/top/view.hpp"

namespace roll::cli::top {
namespace {

// from this width on, both curves are drawn side by side
constexpr std::size_t kSideBySide = 120;
constexpr std::size_t kPlotRowsMin = 8;
constexpr std::size_t kPlotRowsMax = 16;

std::vector<std::string> lines_in(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = std::min(text.find('\n', from), text.size());
        lines.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    return lines;
}

// Returns the lines of a curve, with its title first; empty if the curve has no points.
std::vector<std::string> curve_lines(const std::string& title, const std::vector<Point>& points,
                                     std::size_t width, std::size_t rows) {
    if (points.empty()) return {};
    std::vector<std::string> lines = {fmt::format("{} from step {:.6g} to {:.6g}: {:.4g} to {:.4g}",
                                                  title, points.front().x, points.back().x,
                                                  points.front().y, points.back().y)};
    for (std::string& line : lines_in(plot(points, width, rows))) lines.push_back(std::move(line));
    return lines;
}

std::vector<std::string> curves(const OpenJob& open, const Canvas& canvas) {
    const bool beside = canvas.width >= kSideBySide;
    const std::size_t rows = std::clamp(canvas.height / 3, kPlotRowsMin, kPlotRowsMax);
    const std::size_t width = beside ? canvas.width / 2 - 1 : canvas.width;
    auto left = curve_lines("loss", open.loss, width, rows);
    const auto right = curve_lines("tokens/s", open.speed, width, rows);
    if (!beside || left.empty()) {
        left.insert(left.end(), right.begin(), right.end());
        return left;
    }
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
        left[i] = pad_text(fit_text(left[i], width), width + 2) + right[i];
    return left;
}

std::string resources_text(const Json& job) {
    const Json resources = job.value("resources", Json::object());
    std::string text = fmt::format("{} node{} with {} slot{}", field_text(resources, "nodes"),
                                   field_text(resources, "nodes") == "1" ? "" : "s",
                                   field_text(resources, "slots_per_node"),
                                   field_text(resources, "slots_per_node") == "1" ? "" : "s");
    const std::string gpus = field_text(resources, "gpus_per_node");
    if (gpus != "0" && !gpus.empty()) text += fmt::format(" and {} GPUs", gpus);
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
    const Json& job = data.open.job;
    const bool known = job.is_object() && job.value("id", std::uint64_t{0}) == ui.job.value_or(0);
    if (!known) return {{{"reading the job ...", Style::Dim}}};
    std::vector<Line> lines;
    const Look look{canvas.now, false, canvas.local, canvas.width};
    const auto put = [&](const std::string& text) { lines.push_back({{harmless(text)}}); };
    put(job_line(job, 0, false));
    put("  resources       " + resources_text(job));
    const auto details = lines_in(job_text(job, look));
    const auto table_at = std::ranges::find(details, "");
    for (auto line = details.begin() + 1; line < table_at; ++line) put(*line);
    const std::string shares = phase_shares(data.open.phases);
    if (!shares.empty()) put("  time of a step  " + shares);
    const std::vector<std::string> plots = curves(data.open, canvas);
    if (!plots.empty()) put("");
    for (const std::string& line : plots) put(line);
    for (auto line = table_at; line < details.end(); ++line) put(*line);
    return lines;
}

}  // namespace roll::cli::top
