// metrics.csv: the numeric values of metrics.jsonl's rows, one column per key. Readers must find
// columns by name. The column `schema` has a version, which changes when a column changes its
// meaning.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

class CsvTable {
  public:
    // `sets` are the names of the validation sets (one empty name if unnamed). `kept` are the
    // rows at the start of the file. Each key with a number in these rows gets a column, and so
    // does each of `pair_keys`, for steps and validations.
    CsvTable(const std::vector<std::string>& sets, const std::vector<OrderedJson>& kept,
             std::span<const char* const> pair_keys);

    std::string head() const;

    // Returns the row as a line. Missing values are empty cells. Returns an empty text if the row
    // has no number other than its step.
    std::string line(const OrderedJson& row) const;

  private:
    std::vector<std::string> columns_;
};

}  // namespace roll::train
