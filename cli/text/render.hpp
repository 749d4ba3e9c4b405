// Formats tables, times and amounts for people. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

struct Column {
    std::string title;
    bool right = false;  // align the cells to the right, for numbers
    // If the table is too wide, columns with a nonzero `shrinks` become narrower, down to the width
    // `least`. The column with the lowest `shrinks` is first. If the table is still too wide,
    // columns with a nonzero `drops` are left out. The column with the lowest `drops` is first.
    int shrinks = 0;
    std::size_t least = 0;
    int drops = 0;
};

// Formats rows of cells as lines. Columns are padded and two spaces apart. Columns that are empty
// in all rows are left out. If `color`, cells that contain the name of a job's state are coloured.
// `width` is the maximum width of a line; 0: no maximum. A cell that is cut ends with "+".
std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows, bool color,
                  std::size_t width = 0);

std::string paint_state(const std::string& state, bool color);

std::string duration_text(double seconds);   // returns "42s", "3m 05s", "2h 10m" or "3d 4h"
std::string amount_text(double amount);      // returns "950", "41.2k" or "1.3M"
std::string number_text(const Json& value);  // returns a real number with 4 significant digits

// Parses a time such as "2026-11-21T09:30:00.125Z"; nullopt if it is malformed.
std::optional<Time> parse_time(const Json& value);

// Returns a time such as "2026-11-21 10:30:00" in the local zone.
std::string local_time_text(Time time);

// Returns the time in the field `key` as text. The time is in the local zone if `local`, else in
// UTC.
std::string time_field_text(const Json& object, const std::string& key, bool local);

// Returns a field as text. A string has no quotes, null is an empty text, and commas separate the
// elements of a list.
std::string field_text(const Json& object, const std::string& key);

// Returns the job's progress as an object. In a reply, the progress is an object or JSON text.
Json progress_of(const Json& job);

// Returns ascending job ids as ranges: "1-118,801".
std::string ids_text(const Json& ids);
// Returns text such as "job 5 held\n" or "jobs 1-118,801 held\n", where `what` is "held". If
// `parsable`, returns one id per line. Returns an empty text if there are no ids.
std::string jobs_text(const Json& ids, const std::string& what, bool parsable);

// A point of a curve. In curves of metrics, x is the step.
struct Point {
    double x = 0;
    double y = 0;
};

// Draws a curve in characters. Labels of the y axis are at the left, and labels of the x axis are
// below. The drawing is at most `columns` wide and `rows` high. Each column shows the mean of its
// points. Returns an empty text if there are no points.
std::string plot(const std::vector<Point>& points, std::size_t columns, std::size_t rows);

}  // namespace roll::cli
