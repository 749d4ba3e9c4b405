// Formats the rows of a job's metrics as lines for people. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::cli {

// Formats rows one after the other. Steps form a table whose head has the names of the columns as
// in metrics.jsonl; the head is repeated when a column is added. Other rows, such as validations,
// become lines such as "step 100  valid_loss 1.55".
class MetricsLines {
  public:
    MetricsLines() = default;
    // The table has only the columns `step` and `key`. The rows must have no numbers under other
    // keys.
    explicit MetricsLines(const std::string& key) : one_(true), columns_{"step", key} {}

    // Returns the lines of the row. Returns an empty text for the first row of an attempt, because
    // that row has no step.
    std::string text(const Json& row);

  private:
    std::string step_text(const Json& row);

    bool begun_ = false;
    bool one_ = false;  // true: the table has one metric, and every row is in it
    std::vector<std::string> columns_ = {"step", "loss", "lr", "grad_norm", "tokens_per_second",
                                         "mfu"};
};

}  // namespace roll::cli
