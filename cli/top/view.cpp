#include "cli/top/view.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/text/text_width.hpp"
#include "cli/top/key_help.hpp"
#include "cli/top/rows.hpp"

namespace roll::cli::top {
namespace {

constexpr std::size_t kAround = 3;       // number of lines above and below the body
constexpr std::size_t kEventsShare = 5;  // events take one fifth of the screen
constexpr std::size_t kEventsFrom = 20;  // a screen with fewer lines shows no events

Style style_of(const std::string& state) {
    if (state == "running") return Style::Running;
    if (state == "queued") return Style::Queued;
    if (state == "done") return Style::Done;
    if (state == "failed") return Style::Failed;
    return state == "cancelled" ? Style::Dim : Style::Plain;
}

std::string clock_text(const Canvas& canvas) {
    return canvas.local ? local_time_text(canvas.now) : to_iso8601(canvas.now).substr(0, 19) + "Z";
}

std::size_t event_rows(const Canvas& canvas, const Ui& ui) {
    const bool shown = ui.page == Page::Jobs && canvas.height >= kEventsFrom;
    return shown ? canvas.height / kEventsShare : 0;
}

Line summary(const Data& data, const Canvas& canvas) {
    const auto number = [&](const char* key) { return data.all.value(key, 0.0); };
    std::string text =
        fmt::format("{} running  {} queued  {} node{}  slots {}/{} busy", data.running, data.queued,
                    number("nodes"), number("nodes") == 1 ? "" : "s",
                    number("slots") - number("slots_free"), number("slots"));
    if (number("gpus") > 0)
        text +=
            fmt::format("  GPUs {}/{} busy", number("gpus") - number("gpus_free"), number("gpus"));
    const std::string clock = clock_text(canvas);
    const std::size_t used = columns_of(text) + 2 + clock.size();
    if (used <= canvas.width) text += std::string(canvas.width - used + 2, ' ') + clock;
    return {{pad_text(fit_text(text, canvas.width), canvas.width), Style::Bar}};
}

Line tabs(const Ui& ui) {
    Line line;
    for (std::size_t i = 0; i < kPageNames.size(); ++i) {
        const bool open = i == static_cast<std::size_t>(ui.page);
        const std::string name = fmt::format("{} {}", i + 1, kPageNames.at(i));
        line.push_back(open ? Span{"[" + name + "]", Style::Title}
                            : Span{" " + name + " ", Style::Dim});
    }
    if (ui.page == Page::Jobs)
        line.push_back(
            {fmt::format("  by {}{}{}{}", kSortNames.at(static_cast<std::size_t>(ui.sort)),
                         ui.reversed ? ", reversed" : "", ui.finished ? ", with finished jobs" : "",
                         ui.expand ? ", each task" : "")});
    if (!ui.filter.empty()) line.push_back({"  filter: " + ui.filter, Style::Title});
    return line;
}

// Returns the second line of the screen, which names the open page.
Line heading(const Data& data, const Ui& ui) {
    if (ui.help) return {{"Keys", Style::Title}};
    if (ui.log)
        return {{fmt::format("Log of job {}, rank {}  ", *ui.job, ui.rank), Style::Title},
                {data.log.title, Style::Dim}};
    if (ui.job) return {{fmt::format("Job {}", *ui.job), Style::Title}};
    return tabs(ui);
}

// Returns the keys of the open page, the most important first.
std::vector<std::string> foot_keys(const Ui& ui) {
    if (ui.help) return {"Esc back", "Q quit"};
    if (ui.log)
        return {ui.log_top ? "G end" : "following",
                "Esc back",
                "? help",
                "PgUp PgDn scroll",
                "[ ] rank",
                "Left Right scroll sideways"};
    if (ui.job) return {"? help", "Esc back", "l log", "c cancel", "PgUp PgDn scroll"};
    if (ui.page == Page::Jobs)
        return {"? help",   "q quit", "Enter open", "l log",      "c cancel",
                "/ filter", "s sort", "Tab page",   "a finished", "r tasks"};
    return {"? help", "q quit", "/ filter", "Tab page"};
}

// Joins as many of the first keys as fit on a line. The help (?) lists all keys.
std::string fitting_keys(const std::vector<std::string>& keys, std::size_t width) {
    std::string text;
    for (const std::string& key : keys) {
        const std::string longer = text.empty() ? key : text + "  " + key;
        if (columns_of(longer) > width) break;
        text = longer;
    }
    return text;
}

// Returns the last line of the screen: a question, a result, or the most important keys.
Line footing(const Data& data, const Ui& ui, std::size_t width) {
    if (ui.confirm) return {{"cancel " + ui.confirm->what + "? y/n", Style::Failed}};
    if (ui.typing) return {{"filter: " + ui.filter + "_", Style::Title}};
    if (!data.trouble.empty()) return {{data.trouble, Style::Failed}};
    if (data.answers > ui.answers_seen) return {{data.answer, Style::Title}};
    if (!ui.message.empty()) return {{ui.message, Style::Title}};
    return {{fitting_keys(foot_keys(ui), width), Style::Dim}};
}

// Returns a row of a table as a line. The state in the row is coloured. `at` is the column of the
// title STATE.
Line row_line(const std::string& text, const Row& row, std::size_t at, bool selected,
              std::size_t width) {
    if (selected) return {{pad_text(">" + text, width), Style::Selected}};
    const Style style = style_of(row.state);
    if (style == Style::Plain || at == std::string::npos ||
        text.compare(at, row.state.size(), row.state) != 0)
        return {{" " + text}};
    const std::size_t end = at + row.state.size();
    return {{" " + text.substr(0, at)}, {row.state, style}, {text.substr(end)}};
}

std::string empty_text(const Ui& ui) {
    if (!ui.filter.empty()) return " no row contains \"" + ui.filter + "\"; Esc removes the filter";
    if (ui.page == Page::Jobs) return " no job is queued or running; a lists jobs that have ended";
    if (ui.page == Page::Nodes) return " no node is connected";
    return " there is no allocation queue";
}

void add_list(std::vector<Line>& lines, const Data& data, const Ui& ui, const Canvas& canvas) {
    const List list = list_of(data, ui, canvas);
    if (list.rows.empty()) {
        lines.push_back({{empty_text(ui), Style::Dim}});
        return;
    }
    std::vector<std::vector<std::string>> cells;
    for (const Row& row : list.rows) cells.push_back(row.cells);
    const auto text =
        lines_of(table(list.columns, cells, false, std::max<std::size_t>(canvas.width, 2) - 1));
    const std::size_t at = text.front().find("STATE");
    lines.push_back({{" " + text.front(), Style::Title}});
    const std::size_t room = list_rows(canvas, ui);
    const std::size_t selected = selected_index(list, ui);
    const std::size_t count = list.rows.size();
    // If the list is longer than the screen, the selected row is in the middle of the screen.
    const std::size_t first =
        std::min(selected - std::min(selected, room / 2), count - std::min(count, room));
    for (std::size_t i = first; i < std::min(count, first + room); ++i)
        lines.push_back(row_line(text[i + 1], list.rows[i], at, i == selected, canvas.width));
}

void add_events(std::vector<Line>& lines, const Data& data, const Ui& ui, const Canvas& canvas) {
    const std::size_t rows = event_rows(canvas, ui);
    if (rows == 0) return;
    lines.resize(canvas.height - 1 - rows);
    lines.push_back({{"Events", Style::Title}});
    const std::size_t shown = std::min(rows - 1, data.events.size());
    for (std::size_t i = data.events.size() - shown; i < data.events.size(); ++i)
        lines.push_back({{harmless(data.events[i]), Style::Dim}});
}

void add_part(std::vector<Line>& lines, const std::vector<Line>& all, std::size_t from,
              const Canvas& canvas) {
    const std::size_t rows = body_rows(canvas);
    const std::size_t first = std::min(from, all.size() - std::min(all.size(), rows));
    for (std::size_t i = first; i < std::min(all.size(), first + rows); ++i)
        lines.push_back(all[i]);
}

void add_help(std::vector<Line>& lines, const Ui& ui, const Canvas& canvas) {
    std::vector<Line> all;
    for (const KeyHelp& one : kKeyHelp)
        all.push_back({{fmt::format("{:<24}", one.keys), Style::Title}, {one.what}});
    add_part(lines, all, ui.scroll, canvas);
}

void add_log(std::vector<Line>& lines, const Data& data, const Ui& ui, const Canvas& canvas) {
    const auto& log = data.log;
    const std::size_t rows = body_rows(canvas);
    const std::size_t last = log.lines.size() - std::min(log.lines.size(), rows);
    const std::uint64_t top = ui.log_top.value_or(log.before + last);
    const std::size_t first = std::min<std::uint64_t>(top - std::min(top, log.before), last);
    for (std::size_t i = first; i < std::min(log.lines.size(), first + rows); ++i) {
        const std::string& line = log.lines[i];
        const std::string cut = first_columns(line, ui.shift);
        lines.push_back({{line.substr(cut.size())}});
    }
}

void fit(Line& line, std::size_t width) {
    for (Span& span : line) {
        span.text = first_columns(span.text, width);
        width -= columns_of(span.text);
    }
}

}  // namespace

std::size_t body_rows(const Canvas& canvas) {
    return canvas.height - std::min(canvas.height, kAround);
}

std::size_t list_rows(const Canvas& canvas, const Ui& ui) {
    // Rows of the body that are not rows of the list: the row with the table's titles, and the rows
    // of the events.
    const std::size_t others = 1 + event_rows(canvas, ui);
    return body_rows(canvas) - std::min(body_rows(canvas), others);
}

std::vector<Line> draw(const Data& data, const Ui& ui, const Canvas& canvas) {
    std::vector<Line> lines = {summary(data, canvas), heading(data, ui)};
    if (ui.help) {
        add_help(lines, ui, canvas);
    } else if (ui.log) {
        add_log(lines, data, ui, canvas);
    } else if (ui.job) {
        add_part(lines, job_lines(data, ui, canvas), ui.scroll, canvas);
    } else {
        add_list(lines, data, ui, canvas);
        add_events(lines, data, ui, canvas);
    }
    lines.resize(canvas.height);
    if (canvas.height > 1) lines.back() = footing(data, ui, canvas.width);
    for (Line& line : lines) fit(line, canvas.width);
    return lines;
}

std::string text_of(const Line& line) {
    std::string text;
    for (const Span& span : line) text += span.text;
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
}

}  // namespace roll::cli::top
