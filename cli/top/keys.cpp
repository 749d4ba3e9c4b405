#include "cli/top/keys.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/show/job_view.hpp"
#include "cli/top/key_help.hpp"
#include "cli/top/rows.hpp"
#include "cli/top/view.hpp"

namespace roll::cli::top {
namespace {

constexpr std::size_t kShift = 16;  // number of columns by which Left and Right move a log

// Returns by how many rows a key moves the selection or the text; 0 for all other keys. Home and
// End return a number larger than any number of rows.
std::int64_t rows_moved(Key key, std::size_t rows) {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const auto screen = static_cast<std::int64_t>(std::max<std::size_t>(rows, 1));
    switch (key.kind) {
        case Key::Up: return -1;
        case Key::Down: return 1;
        case Key::PageUp: return -screen;
        case Key::PageDown: return screen;
        case Key::Home: return -kFar;
        case Key::End: return kFar;
        default: break;
    }
    if (key.kind != Key::Character) return 0;
    return key.character == 'k'   ? -1
           : key.character == 'j' ? 1
           : key.character == 'g' ? -kFar
           : key.character == 'G' ? kFar
                                  : 0;
}

std::uint64_t moved(std::uint64_t at, std::int64_t steps, std::uint64_t last) {
    const auto sum = static_cast<std::int64_t>(at) + steps;
    return static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(sum, 0, static_cast<std::int64_t>(last)));
}

// Handles a key while the user types a filter.
void type(Ui& ui, Key key) {
    if (key.kind == Key::Enter) ui.typing = false;
    if (key.kind == Key::Escape) {
        ui.typing = false;
        ui.filter.clear();
    }
    if (key.kind == Key::Backspace && ui.filter.empty()) ui.typing = false;
    if (key.kind == Key::Backspace && !ui.filter.empty()) ui.filter.pop_back();
    if (key.kind == Key::Character) ui.filter += key.character;
}

void open_page(Ui& ui, Page page) {
    ui.page = page;
    ui.filter.clear();
}

void turn_page(Ui& ui, int by) {
    const auto count = static_cast<int>(kPageNames.size());
    open_page(ui, static_cast<Page>((static_cast<int>(ui.page) + by + count) % count));
}

void open_job(Ui& ui, std::uint64_t id, bool log) {
    ui.job = id;
    ui.log = log;
    ui.rank = 0;
    ui.scroll = 0;
    ui.shift = 0;
    ui.log_top.reset();
}

// Asks the user whether to cancel the job in this row. If the row is an array, asks about the tasks
// of the array.
void ask_to_cancel(Ui& ui, const Json& job) {
    const Json fold = job.value("fold", Json());
    const std::string name = id_text(job) + " " + field_text(job, "name");
    if (is_over(job) && !fold.is_object()) {
        ui.message = "job " + name + " has ended";
    } else if (fold.is_object()) {
        ui.confirm = {fmt::format("{}-{}", field_text(fold, "first"), field_text(fold, "last")),
                      fmt::format("the queued and running tasks of {}", name)};
    } else {
        ui.confirm = {field_text(job, "id"), "job " + name};
    }
}

// Handles a key in the log of a job.
void press_in_log(Ui& ui, Key key, const Data& data, const Canvas& canvas) {
    const std::size_t rows = body_rows(canvas);
    const std::uint64_t end = data.log.before + data.log.lines.size();
    const std::uint64_t last = std::max<std::uint64_t>(data.log.before, end - std::min(end, rows));
    if (const auto steps = rows_moved(key, rows); steps != 0) {
        const std::uint64_t top = moved(ui.log_top.value_or(last), steps, last);
        ui.log_top = std::max(top, data.log.before);
        if (top >= last) ui.log_top.reset();
    }
    if (key.kind == Key::Right) ui.shift += kShift;
    if (key.kind == Key::Left) ui.shift -= std::min(ui.shift, kShift);
}

// Opens the log of another rank. Shows a message if the job has no such rank.
void change_rank(Ui& ui, int by, const Data& data) {
    const int rank = ui.rank + by;
    const int ranks = std::max(1, ranks_of(data.open.job));
    if (rank < 0 || rank >= ranks) {
        ui.message = fmt::format("the job has the ranks 0 to {}", ranks - 1);
        return;
    }
    open_job(ui, *ui.job, true);
    ui.rank = rank;
}

// Goes back one level. Returns false on a list, because a list is the first level.
bool back(Ui& ui) {
    if (ui.help) {
        ui.help = false;
        ui.scroll = 0;
    } else if (ui.log) {
        ui.log = false;
    } else if (ui.job) {
        ui.job.reset();
        ui.scroll = 0;
    } else {
        return false;
    }
    return true;
}

// Handles a key in a list of jobs, nodes or allocations.
void press_in_list(Ui& ui, Key key, const Data& data, const Canvas& canvas) {
    const List list = list_of(data, ui, canvas);
    const bool jobs = ui.page == Page::Jobs;
    if (!list.rows.empty()) {
        const std::size_t at = selected_index(list, ui);
        const auto steps = rows_moved(key, list_rows(canvas, ui));
        const std::size_t now = moved(at, steps, list.rows.size() - 1);
        ui.selected.at(static_cast<std::size_t>(ui.page)) = list.rows[now].key;
        const Json& row = list.rows[now].source;
        const auto id = jobs ? row.value("id", std::uint64_t{0}) : 0;
        if (jobs && key.kind == Key::Enter) open_job(ui, id, false);
        if (jobs && key.kind == Key::Character && key.character == 'l') open_job(ui, id, true);
        if (jobs && key.kind == Key::Character && key.character == 'c') ask_to_cancel(ui, row);
    }
    if (key.kind == Key::Tab) turn_page(ui, 1);
    if (key.kind == Key::BackTab) turn_page(ui, -1);
    if (key.kind == Key::Escape) ui.filter.clear();
    if (key.kind != Key::Character) return;
    switch (key.character) {
        case '1':
        case '2':
        case '3': open_page(ui, static_cast<Page>(key.character - '1')); break;
        case '/': ui.typing = true; break;
        case 's':
            ui.sort =
                static_cast<Sort>((static_cast<std::size_t>(ui.sort) + 1) % kSortNames.size());
            break;
        case 'S': ui.reversed = !ui.reversed; break;
        case 'a': ui.finished = !ui.finished; break;
        case 'r': ui.expand = !ui.expand; break;
        default: break;
    }
}

// Handles a key on the page of a job.
void press_in_job(Ui& ui, Key key, const Data& data, const Canvas& canvas) {
    const std::size_t lines = job_lines(data, ui, canvas).size();
    const std::size_t rows = body_rows(canvas);
    ui.scroll = moved(ui.scroll, rows_moved(key, rows), lines - std::min(lines, rows));
    if (key.kind != Key::Character) return;
    if (key.character == 'l') open_job(ui, *ui.job, true);
    if (key.character == 'c' && data.open.job.is_object()) ask_to_cancel(ui, data.open.job);
}

}  // namespace

Effect press(Ui& ui, Key key, const Data& data, const Canvas& canvas) {
    ui.message.clear();
    ui.answers_seen = data.answers;
    if (ui.confirm) {
        const Confirm asked = *std::exchange(ui.confirm, std::nullopt);
        const bool yes = key.kind == Key::Character && (key.character | ' ') == 'y';
        ui.message = yes ? "cancelling " + asked.what : asked.what + ": not cancelled";
        return {.cancel = yes ? asked.selector : ""};
    }
    if (ui.typing) {
        type(ui, key);
        return {};
    }
    const char character = key.kind == Key::Character ? key.character : '\0';
    const bool leaves = key.kind == Key::Escape || key.kind == Key::Backspace || character == 'q';
    if (character == 'Q') return {.quit = true};
    if (leaves && back(ui)) return {};
    if (character == 'q') return {.quit = true};
    if (character == '?') {
        ui.help = true;
        ui.scroll = 0;
    } else if (ui.help) {
        const std::size_t rows = body_rows(canvas);
        ui.scroll = moved(ui.scroll, rows_moved(key, rows),
                          kKeyHelp.size() - std::min(kKeyHelp.size(), rows));
    } else if (ui.log && (character == '[' || character == ']')) {
        change_rank(ui, character == ']' ? 1 : -1, data);
    } else if (ui.log) {
        press_in_log(ui, key, data, canvas);
    } else if (ui.job) {
        press_in_job(ui, key, data, canvas);
    } else {
        press_in_list(ui, key, data, canvas);
    }
    return {};
}

}  // namespace roll::cli::top
