#include "worker/plan/pipeline_print.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/counted.hpp"

namespace roll::plan {
namespace {

std::size_t longest_label(const PipelineSchedule& s) {
    std::size_t longest = 0;
    for (const auto& ops : s.ranks)
        for (const Op& op : ops) longest = std::max(longest, to_string(op).size());
    return longest;
}

// Returns the length of the shortest op, which the drawing uses as its unit of time. Ignores ops
// that take less than a quarter of the mean, such as the ops of a chunk without layers. If such an
// op were the unit, the drawing would be too wide.
double shortest_op(const ScheduleReport& report) {
    std::vector<double> times;
    for (std::size_t rank = 0; rank < report.starts.size(); ++rank)
        for (std::size_t i = 0; i < report.starts[rank].size(); ++i)
            times.push_back(report.ends[rank][i] - report.starts[rank][i]);
    double sum = 0, shortest = INFINITY;
    for (const double time : times) sum += time;
    for (const double time : times)
        if (4 * time * static_cast<double>(times.size()) >= sum)
            shortest = std::min(shortest, time);
    return std::isfinite(shortest) && shortest > 0 ? shortest : 1;
}

struct Columns {
    std::size_t cell = 0;  // columns per unit of time
    std::size_t band = 0;  // number of columns in one line of the terminal
    double unit = 1;

    std::size_t at(double time) const {
        return static_cast<std::size_t>(std::lround(time / unit * static_cast<double>(cell)));
    }
};

// Returns a rank's whole step as one line. Dashes fill the columns of an op that takes several
// units, and ops that take almost no time are left out. The caller wraps the line at each multiple
// of `band` columns, which no label crosses.
std::string rank_line(const std::vector<Op>& ops, const std::vector<double>& starts,
                      const std::vector<double>& ends, const Columns& columns) {
    std::string line;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const double time = ends[i] - starts[i];
        if (8 * time < columns.unit) continue;
        const std::string label = to_string(ops[i]);
        std::size_t start = std::max(line.size(), columns.at(starts[i]));
        if (start / columns.band != (start + label.size() - 1) / columns.band)
            start = (start / columns.band + 1) * columns.band;
        line.resize(start, ' ');
        line += label;
        const std::size_t end = columns.at(ends[i]);
        if (2 * time >= 3 * columns.unit && end > line.size() + 1) line.resize(end - 1, '-');
        line.resize(std::max(line.size() + 1, end), ' ');
    }
    return line;
}

std::string without_spaces_at_end(const std::string& line) {
    return line.substr(0, line.find_last_not_of(' ') + 1);
}

constexpr const char* kColours[3][2] = {
    {"#9ecbf0", "#c9e2f8"}, {"#f6c177", "#fbe0b8"}, {"#a9d8a0", "#d3ecce"}};
constexpr const char* kWords[] = {"forward", "backward (input)", "backward (weight)"};

constexpr double kRowHeight = 26, kBoxHeight = 22, kLeft = 64, kTop = 58;

std::string svg_box(const Op& op, double x, double y, double width) {
    const std::string label = to_string(op);
    std::string text = fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\" "
        "stroke=\"#666\" stroke-width=\"0.5\"/>\n",
        x, y, width, kBoxHeight, kColours[static_cast<int>(op.kind)][op.chunk % 2]);
    if (width >= 7.0 * static_cast<double>(label.size()))
        text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                            x + width / 2, y + 15, label);
    return text;
}

std::string svg_legend(int vp) {
    std::string text;
    double x = kLeft;
    for (int kind = 0; kind < 3; ++kind, x += 150)
        text += fmt::format(
            "<rect x=\"{:.0f}\" y=\"30\" width=\"14\" height=\"14\" fill=\"{}\" "
            "stroke=\"#666\" stroke-width=\"0.5\"/>\n"
            "<text x=\"{:.0f}\" y=\"41\">{} {}</text>\n",
            x, kColours[kind][0], x + 19, "FBW"[kind], kWords[kind]);
    if (vp > 1)
        text +=
            fmt::format("<text x=\"{:.0f}\" y=\"41\">' = chunk 1, '' = chunk 2, ...</text>\n", x);
    return text;
}

std::string escaped(const std::string& title) {
    std::string text;
    for (const char c : title) {
        if (c == '<' || c == '&')
            text += c == '<' ? "&lt;" : "&amp;";
        else
            text += c;
    }
    return text;
}

}  // namespace

std::string table_text(const PipelineSchedule& schedule, const ScheduleReport& report,
                       std::size_t width) {
    // if there are more bands (lines per rank), the middle ones are left out
    constexpr std::size_t kBands = 4;
    Columns columns{.cell = longest_label(schedule) + 1, .unit = shortest_op(report)};
    const std::size_t prefix = std::to_string(schedule.pp - 1).size(), cell = columns.cell;
    const std::size_t band = std::max<std::size_t>(1, (width - prefix - 2) / cell) * cell;
    columns.band = band;
    std::vector<std::string> lines;
    std::size_t longest = 0;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        lines.push_back(
            rank_line(schedule.ranks[rank], report.starts[rank], report.ends[rank], columns));
        longest = std::max(longest, without_spaces_at_end(lines.back()).size());
    }
    const std::size_t bands = (longest + band - 1) / band;
    std::string text;
    for (std::size_t i = 0; i < bands; ++i) {
        if (bands > kBands && i == kBands / 2) {
            const std::size_t left_out = bands - kBands;
            text += fmt::format("\n{:>{}} | ... {} of time left out ...\n", "", prefix,
                                counted(left_out * band / cell, "unit"));
            i += left_out;
        }
        if (i > 0) text += '\n';
        for (int rank = 0; rank < schedule.pp; ++rank) {
            std::string part =
                lines[rank].size() > i * band ? lines[rank].substr(i * band, band) : std::string();
            text += without_spaces_at_end(fmt::format("{:>{}} |{}", rank, prefix, part)) + '\n';
        }
    }
    return text;
}

std::string svg_text(const PipelineSchedule& schedule, const ScheduleReport& report,
                     const std::string& title) {
    const double label = 7.0 * static_cast<double>(longest_label(schedule)) + 4;
    const double scale = label / shortest_op(report);
    const double right = kLeft + report.makespan * scale;
    const double bottom = kTop + kRowHeight * schedule.pp;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2:.0f}\" y=\"20\" font-size=\"14\">{3}</text>\n",
        std::max(right + 16, kLeft + 640), bottom + 30, kLeft, escaped(title));
    text += svg_legend(schedule.vp);
    for (int rank = 0; rank < schedule.pp; ++rank) {
        const double y = kTop + kRowHeight * rank;
        text += fmt::format("<text x=\"8\" y=\"{:.1f}\">stage {}</text>\n", y + 15, rank);
        text += fmt::format(
            "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
            "fill=\"#eeeeee\"/>\n",
            kLeft, y, right - kLeft, kBoxHeight);
        for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
            const double start = report.starts[rank][i], end = report.ends[rank][i];
            text +=
                svg_box(schedule.ranks[rank][i], kLeft + start * scale, y, (end - start) * scale);
        }
    }
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\">0</text>\n", kLeft, bottom + 14);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
                        right, bottom + 14, report.makespan);
    return text + "</svg>\n";
}

std::string trace_text(const PipelineSchedule& schedule, const ScheduleReport& report) {
    constexpr double kMicroseconds = 1000;  // microseconds of the trace per unit of simulated time
    std::string events;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        events += fmt::format(R"({}{{"name": "thread_name", "ph": "M", "pid": 0, "tid": {}, )"
                              R"("args": {{"name": "stage {}"}}}})",
                              rank == 0 ? "" : ",\n", rank, rank);
        for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
            const Op& op = schedule.ranks[rank][i];
            const double start = report.starts[rank][i], end = report.ends[rank][i];
            events += fmt::format(
                R"(,
{{"name": "{}", "cat": "{}", "ph": "X", "ts": {:.3f}, "dur": {:.3f}, )"
                R"("pid": 0, "tid": {}, "args": {{"chunk": {}, "micro_batch": {}}}}})",
                to_string(op), kWords[static_cast<int>(op.kind)], start * kMicroseconds,
                (end - start) * kMicroseconds, rank, op.chunk, op.microbatch);
        }
    }
    return R"({"displayTimeUnit": "ms", "traceEvents": [)"
           "\n" +
           events + "\n]}\n";
}

}  // namespace roll::plan
