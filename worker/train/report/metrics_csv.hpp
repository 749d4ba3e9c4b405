// metrics.csv: the numbers in the rows of metrics.jsonl, with one column per key. Readers must find
// columns by name. The column `schema` has a version number. This number changes when the meaning
// of a column changes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

class CsvTable {
  public:
    // `sets` are the names of the validation sets (one empty name if the only set has no name).
    // `kept` are the rows at the start of the file. Each key that has a number in these rows gets a
    // column. Each key in `objective_keys` gets a column for training steps, and columns for the
    // validation sets. `tasks` are the names of the tasks of train.evaluation.
    CsvTable(const std::vector<std::string>& sets, const std::vector<OrderedJson>& kept,
             std::span<const char* const> objective_keys,
             const std::vector<std::string>& tasks = {});

    std::string head() const;

    // Returns the row as a line. Missing values are empty cells. Returns an empty string if the row
    // has no number except its step.
    std::string line(const OrderedJson& row) const;

  private:
    std::vector<std::string> columns_;
};

}  // namespace roll::train
