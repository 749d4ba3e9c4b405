// The rows of the three lists of `rollctl top`, filtered and sorted. Pure functions.
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
    std::string state;  // for its colour; may be empty
    std::vector<std::string> cells;
    Json source;  // the row of rolld's reply
};

struct List {
    std::vector<Column> columns;
    std::vector<Row> rows;
};

// Returns the number that identifies a row of jobs: that of the array that the job is in, else the
// job's own.
std::uint64_t row_key(const Json& job);

// Returns the list of the page that is open. Only rows are in it that contain the filter.
List list_of(const Data& data, const Ui& ui, const Canvas& canvas);

// Returns the index of the selected row: the first row if the selected one is gone. Requires that
// the list has rows.
std::size_t selected_index(const List& list, const Ui& ui);

// Draws the newest `width` values with 8 heights, which range over `bounds`, or from the smallest
// to the largest value. Empty if there are no values.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool utf8,
                      std::optional<std::pair<double, double>> bounds = std::nullopt);

}  // namespace roll::cli::top
