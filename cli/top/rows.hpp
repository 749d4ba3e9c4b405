// Makes the rows of the three lists of `rollctl top`, filtered and sorted. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/top/model.hpp"

namespace roll::cli::top {

struct Row {
    std::string key;    // identifies the row while the list changes
    std::string state;  // state that determines the row's colour; may be empty
    std::vector<std::string> cells;
    Json source;  // the row of rolld's reply
};

struct List {
    std::vector<Column> columns;
    std::vector<Row> rows;
};

// Returns the number that identifies a row of jobs: the number of the array if the job is in an
// array, else the job's id.
std::uint64_t row_key(const Json& job);

// Returns the list of the open page: the rows that contain the filter's text.
List list_of(const Data& data, const Ui& ui, const Canvas& canvas);

// Returns the index of the selected row. If the selected row is gone, returns the index of the
// first row. Requires that the list has rows.
std::size_t selected_index(const List& list, const Ui& ui);

// Draws the newest `width` values as characters of 8 heights. The lowest and the highest character
// stand for the ends of `bounds`, or for the smallest and the largest value if there are no
// `bounds`. Returns an empty text if there are no values.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool utf8,
                      std::optional<std::pair<double, double>> bounds = std::nullopt);

}  // namespace roll::cli::top
