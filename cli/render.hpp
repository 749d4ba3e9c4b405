// Tables, times and amounts as people read them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::cli {

struct Column {
    std::string title;
    bool right = false;  // numbers
};

// Rows of cells as lines, columns padded and two spaces apart; columns without any content are left
// out. Colour: states by their names.
std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows, bool color);

std::string paint_state(const std::string& state, bool color);

std::string duration_text(double seconds);   // "42s", "3m 05s", "2h 10m", "3d 4h"
std::string amount_text(double amount);      // "950", "41.2k", "1.3M"
std::string number_text(const Json& value);  // an integer as it is, a real in 4 digits

// A message's time, "2026-11-21T09:30:00.125Z"; nothing if it is none.
std::optional<Time> parse_time(const Json& value);

// A field for people: a string bare, null as "", lists joined by commas.
std::string field_text(const Json& object, const std::string& key);

// Numbers of jobs, ascending: "1-118,801".
std::string ids_text(const Json& ids);
// "job 5 held\n", "jobs 1-118,801 held\n", or a number a line; nothing for none.
std::string jobs_text(const Json& ids, const std::string& what, bool parsable);

// A point of a curve; for metrics x is the step.
struct Point {
    double x = 0;
    double y = 0;
};

// A curve with a labelled axis for y at the left and for x below, at most `columns` characters wide
// and `rows` high. A column shows the mean of its points. Empty if there are no points.
std::string plot(const std::vector<Point>& points, std::size_t columns, std::size_t rows);

}  // namespace roll::cli
