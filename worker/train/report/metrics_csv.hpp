// metrics.csv: the numeric values of metrics.jsonl's rows, with one column for each key. Readers
// find columns by name; the column `schema` holds a version, which changes if a column changes its
// meaning.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

class CsvTable {
  public:
    // `sets` are the names of the validation sets (one empty name if unnamed). `kept` are the rows
    // with which the file starts. Each key of these rows that has a number gets a column.
    CsvTable(const std::vector<std::string>& sets, const std::vector<OrderedJson>& kept);

    std::string head() const;

    // Returns the row as a line, with an empty cell for each missing value; empty if the row has no
    // number except its step.
    std::string line(const OrderedJson& row) const;

  private:
    std::vector<std::string> columns_;
};

}  // namespace roll::train
