// Draws the screen of `rollctl top` as lines of styled text. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/top/model.hpp"

namespace roll::cli::top {

enum class Style { Plain, Bar, Title, Selected, Dim, Running, Queued, Done, Failed };

struct Span {
    std::string text;
    Style style = Style::Plain;
};
using Line = std::vector<Span>;

// Returns exactly `canvas.height` lines of at most `canvas.width` columns.
std::vector<Line> draw(const Data& data, const Ui& ui, const Canvas& canvas);

// Returns the text of the spans, for output that is not a terminal.
std::string text_of(const Line& line);

// Returns the number of rows that remain without the two lines at the top and the line at the
// bottom.
std::size_t body_rows(const Canvas& canvas);
// Returns the number of visible rows of a list.
std::size_t list_rows(const Canvas& canvas, const Ui& ui);

// Returns all lines of the page of the open job. The screen shows a part of them.
std::vector<Line> job_lines(const Data& data, const Ui& ui, const Canvas& canvas);

// Returns the number of ranks of the job; 0 if it is unknown. `job` is from the reply to `show`.
int ranks_of(const Json& job);

}  // namespace roll::cli::top
