// metrics.csv: the numbers of the rows of metrics.jsonl, a column each. Its columns are known by
// name; `schema` holds the version of what they mean.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

class CsvTable {
  public:
    // For a run with validation sets of these names ("" has none) that goes on behind these rows,
    // of whose numbers none is left out either.
    CsvTable(const std::vector<std::string>& sets, const std::vector<OrderedJson>& kept);

    std::string head() const;

    // A cell for each column, empty where the row lacks it; nothing for a row without numbers
    // but its step.
    std::string line(const OrderedJson& row) const;

  private:
    std::vector<std::string> columns_;
};

}  // namespace roll::train
