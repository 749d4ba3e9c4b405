#include "cli/text/render.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>

#include "cli/text/text_width.hpp"

namespace roll::cli {
namespace {

const char* color_of(const std::string& state) {
    if (state == "done") return "32";
    if (state == "running") return "36";
    if (state == "failed") return "31";
    if (state == "cancelled") return "2";
    if (state == "queued") return "33";
    return nullptr;
}

void trim_right(std::string& line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
}

// The widths of a table's columns. A column of width 0 is left out.
using Widths = std::vector<std::size_t>;

constexpr std::size_t kGap = 2;  // spaces between two columns

std::size_t total_of(const Widths& widths) {
    std::size_t total = 0;
    for (const std::size_t width : widths) total += width > 0 ? width + kGap : 0;
    return total > 0 ? total - kGap : 0;
}

// Returns the indices of the columns with a nonzero `rank`, sorted by `rank`. `rank` is the member
// `shrinks` or `drops` of Column.
std::vector<std::size_t> ranked(const std::vector<Column>& columns, int Column::*rank) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (columns[i].*rank > 0) order.push_back(i);
    std::ranges::sort(order, {}, [&](std::size_t i) { return columns[i].*rank; });
    return order;
}

Widths shrunk(const std::vector<Column>& columns, Widths widths, std::size_t width) {
    for (const std::size_t i : ranked(columns, &Column::shrinks)) {
        const std::size_t total = total_of(widths);
        if (total <= width) break;
        const std::size_t least = std::min(widths[i], columns[i].least);
        widths[i] -= std::min(total - width, widths[i] - least);
    }
    return widths;
}

Widths fitted(const std::vector<Column>& columns, Widths widths, std::size_t width) {
    Widths narrow = shrunk(columns, widths, width);
    for (const std::size_t i : ranked(columns, &Column::drops)) {
        if (total_of(narrow) <= width) break;
        widths[i] = 0;
        narrow = shrunk(columns, widths, width);
    }
    return narrow;
}

Widths natural_widths(const std::vector<Column>& columns,
                      const std::vector<std::vector<std::string>>& rows) {
    Widths widths(columns.size(), 0);
    for (const auto& row : rows)
        for (std::size_t i = 0; i < columns.size(); ++i)
            widths[i] = std::max(widths[i], columns_of(row[i]));
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (widths[i] > 0 || rows.empty()) widths[i] = std::max(widths[i], columns[i].title.size());
    return widths;
}

}  // namespace

std::string paint_state(const std::string& state, bool color) {
    const char* code = color ? color_of(state) : nullptr;
    return code == nullptr ? state : fmt::format("\x1b[{}m{}\x1b[0m", code, state);
}

std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows, bool color,
                  std::size_t width) {
    Widths widths = natural_widths(columns, rows);
    if (width > 0) widths = fitted(columns, std::move(widths), width);
    std::string text;
    const auto add_line = [&](const auto& cell_of, bool painted) {
        std::string line;
        std::size_t room = width > 0 ? width : std::string::npos;
        for (std::size_t i = 0; i < columns.size() && room > 0; ++i) {
            if (widths[i] == 0) continue;
            if (!line.empty()) line += "  ";
            const std::size_t own = std::min(widths[i], room);
            const std::string cell = fit_text(cell_of(i), own);
            const std::string shown = paint_state(cell, painted);
            line += shown == cell ? pad_text(cell, own, columns[i].right)
                                  : shown + std::string(own - cell.size(), ' ');
            room -= std::min(room, own + kGap);
        }
        trim_right(line);
        text += line + "\n";
    };
    add_line([&](std::size_t i) { return columns[i].title; }, false);
    for (const auto& row : rows) {
        add_line([&](std::size_t i) { return harmless(row[i]); }, color);
    }
    return text;
}

std::string duration_text(double seconds) {
    const auto s = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e12)));
    if (s < 60) return fmt::format("{}s", s);
    if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
    if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
    return fmt::format("{}d {}h", s / 86400, s / 3600 % 24);
}

std::string amount_text(double amount) {
    if (amount < 1000) return fmt::format("{:.0f}", amount);
    if (amount < 1e6) return fmt::format("{:.1f}k", amount / 1e3);
    if (amount < 1e9) return fmt::format("{:.1f}M", amount / 1e6);
    return fmt::format("{:.1f}G", amount / 1e9);
}

std::string number_text(const Json& value) {
    if (value.is_number_integer()) return value.dump();
    if (!value.is_number()) return "";
    constexpr double kLarge = 1e4;  // from 1e4 on, {:.4g} prints an exponent
    const double real = value.get<double>();
    return real >= kLarge && real < 1e12 ? fmt::format("{:.0f}", real)
                                         : fmt::format("{:.4g}", real);
}

std::optional<Time> parse_time(const Json& value) {
    if (!value.is_string()) return std::nullopt;
    std::tm utc{};
    int milliseconds = 0;
    const int read = std::sscanf(
        value.get_ref<const std::string&>().c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &utc.tm_year,
        &utc.tm_mon, &utc.tm_mday, &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &milliseconds);
    if (read < 6) return std::nullopt;
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    const auto seconds = std::chrono::seconds(::timegm(&utc));
    return Time(std::chrono::milliseconds(seconds) + std::chrono::milliseconds(milliseconds));
}

std::string ids_text(const Json& ids) {
    std::string text;
    for (std::size_t from = 0, to = 0; from < ids.size(); from = to) {
        const auto first = ids[from].get<std::uint64_t>();
        while (to < ids.size() && ids[to].get<std::uint64_t>() == first + (to - from)) ++to;
        text += fmt::format("{}{}", text.empty() ? "" : ",", first);
        if (to - from > 1) text += fmt::format("-{}", first + (to - from) - 1);
    }
    return text;
}

std::string jobs_text(const Json& ids, const std::string& what, bool parsable) {
    if (ids.empty()) return "";
    if (!parsable)
        return fmt::format("job{} {} {}\n", ids.size() == 1 ? "" : "s", ids_text(ids), what);
    std::string text;
    for (const Json& id : ids) text += id.dump() + "\n";
    return text;
}

std::string local_time_text(Time time) {
    const std::time_t seconds =
        std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
    std::tm local{};
    ::localtime_r(&seconds, &local);
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", local.tm_year + 1900,
                       local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

std::string time_field_text(const Json& object, const std::string& key, bool local) {
    const auto time =
        local && object.is_object() ? parse_time(object.value(key, Json())) : std::nullopt;
    return time ? local_time_text(*time) : field_text(object, key);
}

std::string field_text(const Json& object, const std::string& key) {
    if (!object.is_object() || !object.contains(key)) return "";
    const Json& value = object[key];
    if (value.is_null()) return "";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return value.is_number_float() ? number_text(value) : value.dump();
    std::string text;
    for (const Json& one : value) {
        text += (text.empty() ? "" : ",") + (one.is_string() ? one.get<std::string>() : one.dump());
    }
    return text;
}

Json progress_of(const Json& job) {
    const Json progress = job.value("progress", Json());
    if (!progress.is_string()) return progress;
    return Json::parse(progress.get<std::string>(), nullptr, false);
}

namespace {

constexpr std::size_t kAxis = 11;  // width of a y label and the axis: "   2.3101 |"

struct Range {
    double low = 0;
    double high = 0;
    // Returns the index of the cell that contains `value`, if the range is divided into `cells`
    // equal cells.
    std::size_t cell(double value, std::size_t cells) const {
        if (high <= low || cells < 2) return 0;
        const double share = (value - low) / (high - low);
        return static_cast<std::size_t>(std::lround(share * static_cast<double>(cells - 1)));
    }
    double at(std::size_t cell, std::size_t cells) const {
        return low + (high - low) * static_cast<double>(cell) / static_cast<double>(cells - 1);
    }
};

template <class Values, class Member>
Range range_of(const Values& values, Member member) {
    const auto [low, high] = std::ranges::minmax_element(values, {}, member);
    return {(*low).*member, (*high).*member};
}

// Returns one point for each column that contains points. x is the number of the column, and y is
// the mean of its points.
std::vector<Point> column_means(const std::vector<Point>& points, std::size_t width) {
    const Range x = range_of(points, &Point::x);
    std::vector<double> sums(width, 0.0);
    std::vector<std::size_t> counts(width, 0);
    for (const Point& point : points) {
        const std::size_t column = x.cell(point.x, width);
        sums[column] += point.y;
        ++counts[column];
    }
    std::vector<Point> means;
    for (std::size_t i = 0; i < width; ++i)
        if (counts[i] > 0)
            means.push_back({static_cast<double>(i), sums[i] / static_cast<double>(counts[i])});
    return means;
}

// Draws the x axis, with labels at both ends and, if there is room, in the middle.
std::string x_axis(const Range& x, std::size_t width) {
    std::string labels(width, ' ');
    const auto put = [&](double value, std::size_t cell, bool ends_there) {
        const std::string text = fmt::format("{:.6g}", std::round(value));
        if (text.size() > width) return;
        const std::size_t from = ends_there ? width - text.size() : cell;
        labels.replace(from, text.size(), text);
    };
    put(x.low, 0, false);
    if (x.high > x.low) put(x.high, width, true);
    constexpr std::size_t kRoomForThree = 40;
    if (x.high - x.low >= 2 && width >= kRoomForThree) put(x.at(1, 3), width / 2, false);
    trim_right(labels);
    return fmt::format("{:>{}}{}\n{:>{}}{}\n", "+", kAxis, std::string(width, '-'), "", kAxis,
                       labels);
}

}  // namespace

std::string plot(const std::vector<Point>& points, std::size_t columns, std::size_t rows) {
    constexpr std::size_t kLabelEach = 5;  // distance between two labels of the y axis, in rows
    if (points.empty()) return "";
    const std::size_t width = std::max(columns, kAxis + 10) - kAxis;
    const std::size_t height = std::max(rows, std::size_t{6}) - 2;
    const std::vector<Point> means = column_means(points, width);
    const Range y = range_of(means, &Point::y);
    std::string text;
    for (std::size_t row = height; row-- > 0;) {
        const bool labelled =
            row == 0 || (y.high > y.low && (row + 1 == height || row % kLabelEach == 0));
        std::string line = labelled ? fmt::format("{:>9.4g} |", y.at(row, height))
                                    : fmt::format("{:>{}}", "|", kAxis);
        std::string cells(width, ' ');
        for (const Point& point : means)
            if (y.cell(point.y, height) == row) cells[static_cast<std::size_t>(point.x)] = '*';
        line += cells;
        trim_right(line);
        text += line + "\n";
    }
    return text + x_axis(range_of(points, &Point::x), width);
}

}  // namespace roll::cli
